"""A whole GPU run with stand-ins for GPU, toolkit and kernels, on the tests of the small upstream.

Doctor, plan, run, the unpatched tree, report and annotation.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest

from scripts import options
from scripts.core.errors import CheckFailed, OverlayError
from scripts.core.layout import Layout
from scripts.environment import plans
from scripts.release import pin
from scripts.suites import record
from scripts.verbs import environment, tests
from tests.tools.product import Product, put_python

SMI = """\
#!/bin/sh
case "$*" in
*--query-gpu*) echo "0, NVIDIA H100 80GB HBM3, 580.95.05, 9.0, 81559, 80988, Disabled" ;;
*) echo "Driver Version: 580.95.05  CUDA Version: 13.0" ;;
esac
"""
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"
BROKEN = '#!/bin/sh\necho "NVIDIA-SMI has failed because it couldn\'t talk to the driver"\nexit 9\n'


def command(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def host(applied: Product, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A GPU host after `make build`, kernels compiled there."""
    folder = applied.root.parent / "bin"
    command(folder, "nvidia-smi", SMI)
    command(folder, "nvcc", NVCC)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HUB", "real")  # no stand-in for the hub is made
    for name in ("CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST", "BUILDKITE_PARALLEL_JOB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(record, "_PACKAGES", ("pytest",))
    layout = Layout.of(applied.root, None)
    paths = (layout.clone, layout.root / "tests" / "upstream")
    python_path = os.pathsep.join(map(str, paths))
    put_python(layout.venv / "bin" / "python", PYTHONPATH=python_path)
    (layout.clone / "vllm/_C.abi3.so").touch()
    plan = plans.plan(layout, pin.read(layout.pin_file), "cuda", "source")
    assert plan.compile_env["TORCH_CUDA_ARCH_LIST"] == "9.0"
    (layout.venv / "build.stamp").write_text(plan.stamp(layout))
    return layout


# What the variables of an agent give; all else is as the command line has it.
ASKED = argparse.Namespace(
    **{name.replace("-", "_"): "" for name in options.NAMES}
    | {"device": "cuda", "kernels": "source", "suites": ["upstream"]}
)


def test_doctor_finds_the_host_fit(host: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    environment.examine(ASKED, host)
    assert re.search(r"ok +GPU 0 +NVIDIA H100 80GB HBM3, sm_90", capsys.readouterr().out)


def test_a_run_ends_with_what_the_series_broke_and_nothing_else(
    host: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    tests.test(argparse.Namespace(**vars(ASKED) | {"suites": ["list"]}), host)
    plan = capsys.readouterr().out
    assert re.search(r"at most 0\.\d hours in all, 0\.\d on one of 1 agents", plan)
    with pytest.raises(CheckFailed, match="failed: upstream"):
        tests.test(ASKED, host)
    said = capsys.readouterr().out
    assert re.search(r"FAILED  \S+test_small.py::test_two .*\n +passed on base; now", said)
    assert "asked of the unpatched tree: " in said
    assert "test_hub" not in said.partition("FAILED")[2]
    page = (host.reports / "index.html").read_text()
    assert "on cuda-hub" in page
    assert "Asked of the unpatched tree, for want of a record" in page
    note = (host.reports / "annotation.md").read_text()
    assert "`make apply test SUITES=upstream DEVICE=cuda`" in note
    assert "test_two" in note


def test_the_agents_of_a_build_share_it(host: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = set[str]()
    for job in ("0", "1"):
        monkeypatch.setenv("BUILDKITE_PARALLEL_JOB", job)
        monkeypatch.setenv("BUILDKITE_PARALLEL_JOB_COUNT", "2")
        try:
            tests.test(ASKED, host)
        except CheckFailed:
            note = (host.reports / "annotation.md").read_text()
            assert f"SHARD={int(job) + 1}/2" in note
        here = set(re.findall(r"test_(?:small|large)", (host.reports / "upstream.xml").read_text()))
        assert here
        ran |= here
    assert ran == {"test_small", "test_large"}


def test_a_driver_that_fails_stops_it_before_anything_runs(
    host: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(host.root.parent / "bin", "nvidia-smi", BROKEN)
    with pytest.raises(OverlayError, match="architecture to compile: NVIDIA-SMI has failed"):
        tests.test(ASKED, host)
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    with pytest.raises(OverlayError, match="not fit: GPU") as raised:
        tests.test(ASKED, host)
    assert "mend the driver" in raised.value.hint
    assert not host.reports.exists()


def test_a_run_in_which_nothing_runs_is_no_success(host: Layout) -> None:
    put_python(host.venv / "bin" / "python", PYTHONPATH=str(host.clone))  # no plug-in is found
    with pytest.raises(CheckFailed, match="failed: upstream"):
        tests.test(ASKED, host)
