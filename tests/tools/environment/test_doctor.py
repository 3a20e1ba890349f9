"""The preflight, on recorded answers of `nvidia-smi` and on the machine that runs the tests."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scripts.core import packages
from scripts.core.errors import OverlayError
from scripts.core.layout import Layout
from scripts.environment import doctor, machine, native
from scripts.environment.machine import Probe, Said
from tests.tools.product import REPO, Product

GIB = 1 << 30
LAYOUT = Layout.of(Path("/srv/overlay"), None)
H100 = "0, NVIDIA H100 80GB HBM3, 580.95.05, 9.0, 81559, 80988, Disabled"
NO_DEVICES = Said(6, "No devices were found\n")
BROKEN = Said(
    9,
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n\n",
)
MISMATCH = Said(18, "Failed to initialize NVML: Driver/library version mismatch\n")
HEADER = (
    "| NVIDIA-SMI {driver}             Driver Version: {driver}     CUDA Version: {cuda}     |\n"
)


def _smi(*gpus: str, driver: str = "580.95.05", cuda: str = "13.0") -> dict[str, Said]:
    """What nvidia-smi says: the table's header, and one CSV line a GPU."""
    return {
        "nvidia-smi": Said(0, HEADER.format(driver=driver, cuda=cuda)),
        "nvidia-smi --query-gpu": Said(0, "".join(f"{gpu}\n" for gpu in gpus)),
    }


TOOLS = {
    "nvcc": Said(0, "Cuda compilation tools, release 13.0, V13.0.88\n"),
    "c++": Said(0, "c++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022\n"),
    "ccache": Said(0, "ccache version 4.8\n"),
}


def examined(
    answers: Mapping[str, Said],
    *,
    kernels_mode: str = "precompiled",
    device: str = "cuda",
    run: bool = True,
    free: int = 500 * GIB,
    memory: int = 64 * GIB,
    missing: Mapping[str, str] | None = None,
    **env: str,
) -> dict[str, doctor.Finding]:
    def answer(command: Sequence[str]) -> Said:
        name = Path(command[0]).name
        query = f"{name} --query-gpu" if "--query-gpu" in " ".join(command) else name
        return answers.get(query, Said(None, ""))

    environment = {"HF_HOME": "/nowhere", **env}
    probe = Probe(answer, environment, lambda _: free, lambda: memory, lambda _: missing or {})
    found = machine.look(LAYOUT, probe)
    points = doctor.examine(found, device=device, kernels=kernels_mode, run=run)
    return {one.point: one for one in points}


def test_a_fit_gpu_host_is_ok_in_every_point() -> None:
    found = examined(_smi(H100) | TOOLS, kernels_mode="source")

    assert {one.state for one in found.values()} == {"ok"}, found
    assert found["GPU 0"].said == "NVIDIA H100 80GB HBM3, sm_90, 80988 of 81559 MiB free"
    assert found["driver"].said == "580.95.05, runs CUDA up to 13.0"


def test_every_gpu_is_judged() -> None:
    busy = "1, NVIDIA H100 80GB HBM3, 580.95.05, 9.0, 81559, 1204, Disabled"
    found = examined(_smi(H100, busy) | TOOLS)

    assert found["GPU 0"].state == "ok"
    assert found["GPU 1"].state == "warn"
    assert "1204 of 81559 MiB free" in found["GPU 1"].said


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "no nvidia-smi"),
        ({"nvidia-smi --query-gpu": NO_DEVICES}, "No devices were found"),
        ({"nvidia-smi --query-gpu": BROKEN}, "NVIDIA-SMI has failed because it couldn't"),
        ({"nvidia-smi --query-gpu": MISMATCH}, "Driver/library version mismatch"),
    ],
)
@pytest.mark.parametrize(("run", "state"), [(True, "fail"), (False, "warn")])
def test_without_a_gpu_tests_cannot_run_but_an_image_can_be_built(
    answers: dict[str, Said], said: str, run: bool, state: str
) -> None:
    found = examined(answers | TOOLS, run=run)["GPU"]

    assert found.state == state
    assert said in found.said
    assert found.mend


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [
        ("580.95.05", "13.0", "ok"),
        ("590.44.01", "13.1", "ok"),
        ("570.172.08", "13.0", "ok"),  # with cuda-compat in the image
        ("570.172.08", "12.8", "fail"),
        ("535.261.03", "12.2", "fail"),
    ],
)
def test_an_old_driver_is_refused_unless_a_compat_library_serves(
    driver: str, cuda: str, state: str
) -> None:
    gpu = H100.replace("580.95.05", driver)

    assert examined(_smi(gpu, driver=driver, cuda=cuda) | TOOLS)["driver"].state == state


def test_a_driver_too_old_for_the_query_says_so_itself() -> None:
    old = Said(2, 'Field "compute_cap" is not a valid field to query.\n')

    found = examined({"nvidia-smi --query-gpu": old} | TOOLS)["GPU"]

    assert (found.state, found.said) == ("fail", old.text.strip())


def test_a_gpu_that_cuda_13_dropped_is_refused() -> None:
    volta = "0, Tesla V100-SXM2-32GB, 580.95.05, 7.0, 32768, 32494, [N/A]"

    assert examined(_smi(volta) | TOOLS)["GPU 0"].state == "fail"


def test_a_gpu_cut_into_instances_asks_for_one_of_them() -> None:
    mig = "0, NVIDIA H200, 580.95.05, 9.0, 143771, [Insufficient Permissions], Enabled"

    found = examined(_smi(mig) | TOOLS)["GPU 0"]

    assert found.state == "warn"
    assert "CUDA_VISIBLE_DEVICES=MIG-" in found.mend


@pytest.mark.parametrize("answer", [Said(None, ""), Said(0, "release 12.8, V12.8.93\n")])
def test_a_source_build_needs_nvcc_13(answer: Said) -> None:
    tools = TOOLS | {"nvcc": answer}

    assert examined(_smi(H100) | tools, kernels_mode="source")["nvcc"].state == "fail"
    assert "nvcc" not in examined(_smi(H100) | tools)


LIBRARIES = ("libcublas", "libcublasLt", "libcudart", "libcufft", "libcurand", "libcusolver",
             "libcusparse", "libnvJitLink", "libnvrtc", "stubs/libcuda")  # fmt: skip


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A CUDA_HOME with all that upstream's configure looks for."""
    files = {f"lib64/{name}.so": "" for name in LIBRARIES}
    files |= {"bin/nvcc": "", "include/crt/host_config.h": "#if __GNUC__ > 15\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def home(toolkit: Path, *, gpp: str = "15.2.0") -> doctor.Finding:
    tools = TOOLS | {"c++": Said(0, f"c++ (GCC) {gpp}\n")}
    return examined(tools, kernels_mode="source", run=False, CUDA_HOME=str(toolkit))["CUDA_HOME"]


def test_a_whole_toolkit_is_ok(toolkit: Path) -> None:
    assert home(toolkit).state == "ok"


@pytest.mark.parametrize(
    "name", ["lib64/libcudart.so", "lib64/libnvrtc.so", "lib64/stubs/libcuda.so"]
)
def test_what_a_toolkit_lacks_is_named(toolkit: Path, name: str) -> None:
    (toolkit / name).unlink()
    found = home(toolkit)
    assert (found.state, found.said) == ("fail", f"lacks {name}")
    assert "ci/README.md" in found.mend


def test_a_toolkit_as_the_index_has_it_lacks_lib64(toolkit: Path) -> None:
    (toolkit / "lib64").rename(toolkit / "lib")
    (toolkit / "lib/libcufft.so").rename(toolkit / "lib/libcufft.so.12")
    assert home(toolkit).said == "lacks lib64, lib64/libcufft.so"


def test_a_compiler_newer_than_the_toolkit_takes_is_refused(toolkit: Path) -> None:
    found = home(toolkit, gpp="16.1.0")
    assert (found.state, found.said) == ("fail", "takes GCC up to 15, not 16.1.0")
    assert "CXX=g++-15" in found.mend
    both = TOOLS | {"c++": Said(0, "c++ (GCC) 16.1.0\n"), "g++-15": Said(0, "g++ (GCC) 15.2.0\n")}
    cuda = str(toolkit)
    other = examined(both, kernels_mode="source", run=False, CUDA_HOME=cuda, CXX="g++-15")
    assert other["CUDA_HOME"].state == "ok"


@pytest.mark.parametrize(
    ("processor", "gpp", "state"),
    [("x86_64", "12.2.0", "fail"), ("x86_64", "12.3.0", "ok"), ("aarch64", "12.2.0", "ok")],
)
def test_kernels_for_a_cpu_need_what_upstream_asks_of_its_kind(
    monkeypatch: pytest.MonkeyPatch, processor: str, gpp: str, state: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: processor)
    tools = TOOLS | {"c++": Said(0, f"c++ (GCC) {gpp}\n"), "nvcc": Said(None, "")}
    found = examined(tools, kernels_mode="source", device="cpu", run=False)
    assert found["C++ compiler"].state == state
    assert found["nvcc"].state == "fail"


def test_what_only_slows_or_may_run_out_is_a_warning() -> None:
    tools = {**TOOLS, "ccache": Said(None, "")}
    found = examined(_smi(H100) | tools, kernels_mode="source", free=2 * GIB, HUB="real")

    warned = {point for point, one in found.items() if one.state == "warn"}
    assert warned == {"/dev/shm", "compiler cache", "disk", "model hub"}
    assert all(found[point].mend for point in warned)


@pytest.mark.parametrize("answer", [Said(None, ""), Said(0, "c++ (Debian 10.2.1-6) 10.2.1\n")])
def test_a_source_build_needs_a_compiler_of_cxx_20(answer: Said) -> None:
    tools = TOOLS | {"c++": answer}

    assert examined(_smi(H100) | tools, kernels_mode="source")["C++ compiler"].state == "fail"
    assert "C++ compiler" not in examined(_smi(H100) | tools)


LACKING = {"g++": "a C++ compiler", "libnuma1": "libnuma.so.1", "python3-dev": "Python.h"}


def test_missing_packages_are_refused_at_once_with_the_line_to_type() -> None:
    found = examined({}, device="cpu", kernels_mode="cpu", missing=LACKING)

    with pytest.raises(OverlayError) as raised:
        doctor.refuse(list(found.values()))
    assert raised.value.hint == "apt-get install g++ libnuma1 python3-dev"
    assert found["packages"].said == "missing: a C++ compiler, libnuma.so.1, Python.h"


def test_only_the_kernels_of_the_cpu_want_libnuma() -> None:
    assert examined(_smi(H100) | TOOLS, missing={"libnuma1": ""})["packages"].state == "ok"
    assert examined(_smi(H100) | TOOLS, missing=LACKING)["packages"].mend == (
        "apt-get install g++ python3-dev"
    )


def test_the_readme_names_what_is_looked_for() -> None:
    named = re.findall(r"apt-get install ([^`\n]*)", (REPO / "README.md").read_text())
    lacking = packages.missing({"PATH": "/nowhere", "CXX": "nothing"})

    assert [line.split() for line in named] == [list(packages.README)]
    assert set(lacking) == {"g++", "git"}


@pytest.mark.parametrize(
    ("version", "state"),
    [("3.11.2", "ok"), ("3.12.1", "ok"), ("3.13.9", "ok"), ("3.14.0", "fail"), ("4.0.0", "fail")],
)
def test_a_python_that_the_locks_were_not_made_for_is_refused_by_name(
    version: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "python_version", lambda: version)
    found = examined({}, device="cpu", kernels_mode="cpu")["Python"]

    assert found.state == state
    assert version in found.said
    assert state == "ok" or "3.11 to 3.13" in found.said
    assert any(version in line for line in packages.notes({})) == (state == "fail")


@pytest.mark.parametrize("lock", ["cpu", "cuda"])
def test_a_lock_says_which_pythons_it_is_for(lock: str) -> None:
    first, last = (".".join(map(str, one)) for one in packages.PYTHONS)
    head = (REPO / "ci" / f"{lock}.in").read_text()
    assert f"For Python {first} to {last}." in head
    assert f"--python-version {first} " in head
    assert f"--python-version {first} " in (REPO / "ci" / f"{lock}.txt").read_text()


def _machine(*gpus: str, memory: int = 64 * GIB) -> machine.Machine:
    answers = _smi(*gpus)

    def answer(command: Sequence[str]) -> Said:
        return answers["nvidia-smi --query-gpu" if len(command) > 1 else "nvidia-smi"]

    return machine.look(LAYOUT, Probe(answer, {}, lambda _: 0, lambda: memory, lambda _: {}))


def test_a_source_build_is_sized_to_the_machine() -> None:
    ampere = "1, NVIDIA A100-SXM4-80GB, 580.95.05, 8.0, 81920, 81000, Disabled"
    env = native.environment(_machine(H100, ampere, memory=4 * GIB), {}, "cuda")

    assert env == {"MAX_JOBS": "1", "NVCC_THREADS": "1", "TORCH_CUDA_ARCH_LIST": "8.0 9.0"}


def test_what_the_user_sets_for_a_source_build_stays() -> None:
    given = {"MAX_JOBS": "40", "NVCC_THREADS": "4", "TORCH_CUDA_ARCH_LIST": "9.0a"}

    assert native.environment(_machine(H100), given, "cuda") == given


def test_without_a_gpu_a_source_build_must_be_told_its_architecture() -> None:
    with pytest.raises(OverlayError) as raised:
        native.environment(_machine(), {}, "cuda")
    assert "TORCH_CUDA_ARCH_LIST=9.0" in raised.value.hint


def test_the_verb_judges_this_machine_and_hides_the_token(product: Product) -> None:
    done = product.run("doctor", "--json", DEVICE="cpu", HUB="real", HF_TOKEN="hf_do_not_print")

    assert done.code == 0, done
    points = {one["point"]: one for one in json.loads(done.out)}
    assert points["model hub"]["said"].startswith("the real one: a token")
    assert "hf_do_not_print" not in done.out + done.err


def test_the_verb_ends_with_2_where_the_machine_is_not_fit(product: Product) -> None:
    done = product.run("doctor", DEVICE="cuda", PATH="/nowhere")

    assert done.code == 2
    assert done.error == "this machine is not fit: GPU, packages"
    assert "fail  GPU" in done.out
    assert "GPU host" in done.hint
    assert "apt-get install g++ git" in done.hint
