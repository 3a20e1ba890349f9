"""Make the environment as planned: install, compile, and re-check the tree."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import kernels, loading, native, plans
from scripts.environment.plans import Plan
from scripts.release import index
from scripts.release.pin import Pin

_VENV_BYTES = 8 << 30  # torch and its libraries take 6 GB
Say = Callable[[str], None]


def build(layout: Layout, pin: Pin, plan: Plan, *, say: Say) -> bool:
    """Make `build/venv` match the plan. False where it already does."""
    stamp = layout.venv / "build.stamp"
    fresh = stamp.is_file() and stamp.read_text() == plan.stamp(layout)
    whole = (layout.venv / "bin" / "python").exists()
    whose = None if plan.compile_env else plan.wheel
    archive = layout.downloads / whose.file if whose else None
    if fresh and whole and (plan.kernels == plans.NONE or kernels.present(layout, archive)):
        run_env = dict(os.environ) | run_environment(layout, plan.device)
        loading.what_waited(layout, plan.device, run_env, say)
        return False
    index.require_space(layout.build, 0 if stamp.is_file() else _VENV_BYTES, "build/venv")
    stamp.unlink(missing_ok=True)
    uv = str(tools.ensure(layout).with_name("uv"))
    env = tools.uv_environment(layout)
    before, targets = _edits(layout), plan.compile_env.get("TARGETS", "")
    say(f"environment from {layout.shown(plan.lock(layout))} …")
    # From nothing: what is there may be half-made, or of another Python. uv's cache makes it quick.
    _run([uv, "venv", "--clear", "--python", sys.executable, str(layout.venv)], env, layout)
    _run([uv, "pip", "sync", "--require-hashes", str(plan.lock(layout))], env, layout)
    if plan.wheel:
        say(f"kernels from {plan.wheel.file} …")
        wheel = index.obtain(layout, plan.wheel)
        if plan.device == "cpu":
            kernels.overlay(wheel, layout.clone)
    if plan.compile_env:
        say(f"compile: {plans.assigned(plan.compile_env)} …")
        native.compile_all(layout, {**env, **plan.compile_env}, targets=targets, say=say)
    say(f"install {pin.project} {plan.env['VLLM_VERSION_OVERRIDE']} …")
    _run(plans.install_command(layout), {**env, **plan.env}, layout)
    if plan.compile_env:
        kernels.place(layout, targets)  # over those of a wheel
    _recheck(layout, plan, before, say)
    stamp.write_text(plan.stamp(layout))
    return True


def _run(command: list[str], env: Mapping[str, str], layout: Layout) -> None:
    """Run one step; its output goes to the terminal where there is one, and to a log elsewhere."""
    layout.reports.mkdir(parents=True, exist_ok=True)
    log = layout.reports / "build.log"
    quiet = None if sys.stderr.isatty() else log.open("ab")
    done = subprocess.run(
        command, env=env, cwd=layout.root, stdin=subprocess.DEVNULL, stdout=quiet, stderr=quiet,
        check=False,
    )  # fmt: skip
    if quiet:
        quiet.close()
    if done.returncode != 0:
        tail = log.read_text(errors="replace").strip().splitlines()[-8:] if quiet else []
        raise OverlayError(
            "\n  ".join([f"`{shlex.join(command[:4])} …` failed", *tail]),
            hint=f"the whole output is in {layout.shown(log)}" if quiet else "see above",
        )


def _edits(layout: Layout) -> str:
    return Git(layout.clone).out("diff", "HEAD")


def _recheck(layout: Layout, plan: Plan, before: str, say: Say) -> None:
    """The install must not have touched a tracked file, and must give the tree that we patched."""
    if _edits(layout) != before:
        raise OverlayError(
            f"the install changed tracked files of {layout.shown(layout.clone)}",
            hint=f"see git -C {layout.shown(layout.clone)} diff",
        )
    code = "import vllm; print(vllm.__file__); print(vllm.__version__)"
    env = dict(os.environ) | run_environment(layout, plan.device)
    command = [str(layout.venv / "bin" / "python"), "-P", "-c", code]
    done = subprocess.run(command, env=env, cwd=layout.root, capture_output=True, text=True)
    path, _, version = done.stdout.strip().partition("\n")
    found = [os.path.realpath(path), version]
    file = os.path.realpath(layout.clone / "vllm" / "__init__.py")
    wanted = [file, plan.env["VLLM_VERSION_OVERRIDE"]]
    if done.returncode != 0 or found != wanted:
        said = done.stderr.strip().splitlines()[-1:] or [f"found {found}, not {wanted}"]
        raise OverlayError(f"the installed vLLM is not the patched tree: {said[0]}")
    if plan.kernels != plans.NONE:
        loading.all_kernels(layout, plan.device, env, say)


def require_own_tree(layout: Layout) -> None:
    """Raise where tests would import another vLLM than the patched tree: one on PYTHONPATH, say."""
    code = (
        "import importlib.util as u; s = u.find_spec('vllm'); print(s.origin if s else 'nowhere')"
    )
    command = [str(layout.venv / "bin" / "python"), "-c", code]
    done = subprocess.run(command, cwd=layout.root, capture_output=True, text=True)
    found = done.stdout.strip() or "nowhere"
    if os.path.realpath(found) != os.path.realpath(layout.clone / "vllm" / "__init__.py"):
        raise OverlayError(
            f"tests would import vllm from {found}, not from {layout.shown(layout.clone)}",
            hint="unset PYTHONPATH; where that is not it: make clean build",
        )


def run_environment(layout: Layout, device: str) -> dict[str, str]:
    """What the patched vLLM needs in its environment at run time.

    Bytecode is kept whatever the machine's habit: without it each process compiles vLLM and torch
    anew, which is most of the time of a start.
    """
    return {
        "VLLM_TARGET_DEVICE": device,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(layout.pycache),
    }
