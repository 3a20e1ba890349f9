"""The pinned upstream release: `patches/upstream.json`, read once and checked."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core.errors import OverlayError


@dataclass(frozen=True)
class Artefact:
    """One file of a package index project; `size` in bytes, `sha256` in hex."""

    project: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Pin:
    """The release that the series applies to, and the artefacts that carry it."""

    project: str
    tag: str
    commit: str
    released: str
    repository: str
    sdist: Artefact
    wheels: dict[str, dict[str, Artefact]]

    @property
    def version(self) -> str:
        return self.tag.removeprefix("v")

    @property
    def branch(self) -> str:
        return f"overlay/{self.tag}"

    def wheel(self, device: str) -> Artefact:
        """The wheel with the kernels for `device` (`cpu`, `cuda`) on this machine's processor."""
        machine = platform.machine()
        found = self.wheels.get(device, {}).get(machine)
        if found is None:
            raise OverlayError(
                f"the pin has no {device} wheel for {machine}",
                hint="build the kernels here: make build KERNELS=source",
            )
        return found


def _artefact(value: dict[str, Any]) -> Artefact:
    found = Artefact(**value)
    if not re.fullmatch(r"[0-9a-f]{64}", found.sha256):
        raise ValueError(f"{found.file}: sha256 is not 64 hex digits")
    return found


def text(pin: Pin) -> str:
    """The pin as `upstream.json` holds it."""
    return json.dumps(asdict(pin), indent=2) + "\n"


def read(path: Path) -> Pin:
    """Parse `upstream.json`. Raises `OverlayError` that names the file and the fault."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        value["sdist"] = _artefact(value["sdist"])
        value["wheels"] = {
            device: {machine: _artefact(item) for machine, item in by_machine.items()}
            for device, by_machine in value["wheels"].items()
        }
        pin = Pin(**value)
        if not re.fullmatch(r"[0-9a-f]{40}", pin.commit):
            raise ValueError("commit is not a full 40-digit id")
    except FileNotFoundError as error:
        raise OverlayError(f"{path} is missing", hint="git checkout patches/") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OverlayError(
            f"{path} is not a valid pin: {error}", hint="see patches/README.md for its form"
        ) from error
    return pin
