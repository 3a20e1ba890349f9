"""What each test did, read from pytest's report log; what a failure lacked, by its message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Result = Literal["passed", "skipped", "failed"]
_WORSE: tuple[Result, ...] = ("passed", "skipped", "failed")

# The first that matches counts.
_RESOURCES = (
    (r"contains custom code|trust_remote_code|auto_map|modeling_\w+\.py|configuration_\w+\.py",
     "remote code of a checkpoint"),
    (r"torchcodec|libav\w+\.so|ffmpeg", "package torchcodec with FFmpeg"),
    (r"No module named '([\w.]+)'|requires the (\w+) library|[Pp]lease install (?:`pip install )?"
     r"`?([\w-]+)", "package {}"),
    (r"amazonaws|vllm-public-assets|NameResolution|Temporary failure in name|ConnectionError|"
     r"Max retries|Connection refused|ClientConnectorError", "the network"),
    (r"\.safetensors|model weights|load_weights|checkpoint shard|No model weights", "weights"),
    (r"OfflineModeIsEnabled|LocalEntryNotFound|couldn't connect to 'https://hugg|offline mode|"
     r"cached snapshot|Can't load|HF_HUB_OFFLINE|is not a valid model identifier|"
     r"does not appear to have a file|Invalid repository ID|Failed to load the tokenizer|"
     r"local_files_only|not find the requested files", "files of the model hub"),
    (r"CUDA|cuda|nccl|NCCL|GPU|triton|0 active drivers|DeviceCapability", "a GPU"),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """`seconds` is set-up, call and tear-down; `reason` is why it failed or was skipped."""

    result: Result
    seconds: float
    reason: str = ""


def read_log(path: Path) -> dict[str, Outcome]:
    """Test id → outcome. A module that cannot be collected stands as a test of its own."""
    found: dict[str, Outcome] = {}
    for record in _records(path):
        name, result = record["nodeid"], record["outcome"]
        if record["$report_type"] == "CollectReport" and result == "passed":
            continue
        before = found.get(name, Outcome("passed", 0.0))
        seconds = before.seconds + record.get("duration", 0.0)
        if _WORSE.index(result) > _WORSE.index(before.result):
            found[name] = Outcome(result, seconds, _reason(record.get("longrepr")))
        else:
            found[name] = Outcome(before.result, seconds, before.reason)
    return found


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            return  # the last line of a run that was killed
        if record.get("$report_type") in ("TestReport", "CollectReport"):
            yield record


def _reason(said: Any) -> str:  # noqa: ANN401 - whatever pytest makes of an exception
    """The message of an exception that pytest caught: all of the chain, the last one first."""
    if isinstance(said, list):  # a skip: file, line, reason
        return str(said[-1]).removeprefix("Skipped: ")
    if isinstance(said, Mapping):
        chain = said.get("chain") or [[None, said.get("reprcrash")]]
        crashes = [crash["message"] for _, crash, *_ in reversed(chain) if crash]
        return "\n".join(crashes)
    return str(said or "")


def resource(reason: str) -> str:
    """What a test lacked that failed with `reason`: a line for people, empty if unknown."""
    for pattern, lacked in _RESOURCES:
        match = re.search(pattern, reason)
        if match:
            names = [name for name in match.groups() if name]
            return lacked.format(names[0].split(".")[0]) if names else lacked
    return ""
