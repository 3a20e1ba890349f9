"""Decide where the kernels come from, make the environment, install, and re-check the tree."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import kernels, machine
from scripts.release import index, source
from scripts.release.pin import Artefact, Pin
from scripts.series import lint

DEVICES = ("cpu", "cuda")
_VENV_BYTES = 8 << 30  # torch and its libraries take 6 GB
Say = Callable[[str], None]


def device(asked: str) -> str:
    """`cpu` or `cuda`: as asked, or by what this machine has."""
    if asked != "auto":
        if asked not in DEVICES:
            raise OverlayError(f"no such device: {asked}", hint=f"one of: auto {' '.join(DEVICES)}")
        return asked
    return "cuda" if Path("/dev/nvidiactl").exists() and shutil.which("nvidia-smi") else "cpu"


@dataclass(frozen=True)
class Plan:
    """What `build` is about to do.

    `wheel` is where the kernels come from, None to compile them all; `compile_env` is for the
    compile, empty without one, `env` for the install.
    """

    device: str
    kernels: str
    why: str
    wheel: Artefact | None
    env: Mapping[str, str]
    compile_env: Mapping[str, str]
    inputs: str

    def lock(self, layout: Layout) -> Path:
        return layout.root / "ci" / f"{self.device}.txt"

    def stamp(self, layout: Layout) -> str:
        """Digest of all that the installed environment depends on."""
        parts = (
            index.digest(self.lock(layout)),
            repr((self.kernels, self.wheel, sorted(self.env.items()), self.inputs)),
            repr(sorted(self.compile_env.items())),
            str(layout.clone),
            sys.version,
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def shown(self, layout: Layout) -> list[str]:
        """The plan as lines for a person; `--dry-run` prints nothing else."""
        where = self.wheel.file if self.wheel else "compiled here"
        if self.wheel and self.compile_env:
            where = f"{self.compile_env['TARGETS']} compiled here, all others from {where}"
        lines = [
            f"device   {self.device}",
            f"kernels  {self.kernels} ({self.why}): {where}",
            f"lock     {layout.shown(self.lock(layout))}",
        ]
        if self.compile_env:
            python = layout.shown(layout.venv / "bin" / "python")
            lines.append(
                f"compile  {_assigned(self.compile_env)} {python} {shlex.join(kernels.COMPILE)}"
            )
        return [*lines, f"install  {_assigned(self.env)} {shlex.join(_install_command(layout))}"]


def _assigned(env: Mapping[str, str]) -> str:
    return " ".join(f"{k}={shlex.quote(v)}" for k, v in sorted(env.items()))


def plan(
    layout: Layout, pin: Pin, asked_device: str, asked_kernels: str, targets: str = ""
) -> Plan:
    """Choose device, kernel mode and environment; the patched tree must be there.

    Of `targets`, extensions by name, only these are compiled; the wheel has the others.
    """
    git = Git(layout.clone)
    chosen = device(asked_device)
    mode, why = _kernels(chosen, asked_kernels, _native(git, source.base(layout, pin)))
    local = "+cpu" if chosen == "cpu" else ""
    env = {"VLLM_VERSION_OVERRIDE": pin.version + local}
    if targets and mode != "source":
        raise OverlayError(
            f"TARGETS is a part of KERNELS=source, and the kernels are {mode} ({why})",
            hint=f"make build KERNELS=source TARGETS={shlex.quote(targets)}",
        )
    wheel = pin.wheel(chosen) if targets or mode != "source" else None
    compile_env = {}
    if wheel and chosen == "cuda":
        # By file: upstream's own look-up falls back to a moving nightly wheel.
        env["VLLM_TARGET_DEVICE"] = "cuda"
        env["VLLM_USE_PRECOMPILED"] = "1"
        env["VLLM_PRECOMPILED_WHEEL_LOCATION"] = str(layout.downloads / wheel.file)
    else:
        env["VLLM_TARGET_DEVICE"] = "empty"  # install only; the kernels are there by then
    if mode == "source":
        found = machine.look(layout, machine.here())
        compile_env = {"VLLM_VERSION_OVERRIDE": env["VLLM_VERSION_OVERRIDE"]}
        compile_env |= {"VLLM_TARGET_DEVICE": chosen}
        compile_env |= kernels.environment(found, os.environ, chosen)
        if targets:
            compile_env["TARGETS"] = ",".join(targets.replace(",", " ").split())
    inputs = git.out("ls-tree", "HEAD", "pyproject.toml", *lint.NATIVE)
    return Plan(chosen, mode, why, wheel, env, compile_env, inputs)


def _native(git: Git, base: str) -> list[str]:
    """Files for which the kernels must be compiled: changed since `base`, by a commit that does
    not say that the wheel's kernels stay the same, or by none yet.
    """
    native = ("--name-only", "--no-renames")
    counted, excused = set(git.lines("diff", *native, "HEAD")), set[str]()
    form = "--format=%x00%(trailers:key=Kernels,valueonly,separator=%x2C)"
    for commit in git.out("log", *native, form, f"{base}..HEAD").split("\0")[1:]:
        said, *files = commit.splitlines()
        (excused if lint.UNCHANGED.fullmatch(said) else counted).update(files)
    changed = [path for path in git.lines("diff", *native, base) if path.startswith(lint.NATIVE)]
    return [path for path in changed if path in counted or path not in excused]


def prebuilt(device: str) -> str:
    """The kernel mode that compiles nothing."""
    return "precompiled" if device == "cuda" else "cpu"


def _kernels(device: str, asked: str, native: list[str]) -> tuple[str, str]:
    if asked == "source":
        return "source", "as asked"
    if native:
        if asked == "auto":
            return "source", f"the series touches {native[0]}"
        raise OverlayError(
            f"KERNELS={asked} cannot work: the series touches {native[0]}",
            hint="make build KERNELS=source",
        )
    if asked == "auto":
        return prebuilt(device), "the series changes no kernel"
    if (asked == "cpu") != (device == "cpu"):
        raise OverlayError(
            f"KERNELS={asked} does not fit device {device}",
            hint="leave KERNELS out, or name the device: make build DEVICE=…",
        )
    return asked, "as asked"


def build(layout: Layout, pin: Pin, plan: Plan, *, say: Say) -> bool:
    """Make `build/venv` match the plan. False where it already does."""
    stamp = layout.venv / "build.stamp"
    fresh = stamp.is_file() and stamp.read_text() == plan.stamp(layout)
    whole = (layout.venv / "bin" / "python").exists()
    whose = None if plan.compile_env else plan.wheel
    archive = layout.downloads / whose.file if whose else None
    if fresh and whole and kernels.present(layout, archive):
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
        say(f"compile: {_assigned(plan.compile_env)} …")
        kernels.compile_all(layout, {**env, **plan.compile_env}, targets=targets, say=say)
    say(f"install {pin.project} {plan.env['VLLM_VERSION_OVERRIDE']} …")
    _run(_install_command(layout), {**env, **plan.env}, layout)
    if plan.compile_env:
        kernels.place(layout, targets)  # over those of a wheel
    _recheck(layout, plan, before)
    stamp.write_text(plan.stamp(layout))
    return True


def _install_command(layout: Layout) -> list[str]:
    uv = str(tools.python(layout).with_name("uv"))
    return [uv, "pip", "install", "--no-deps", "--no-build-isolation", "-e", str(layout.clone)]


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


def _recheck(layout: Layout, plan: Plan, before: str) -> None:
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
    _load_kernels(command[0], env, layout, plan.device)


def _load_kernels(python: str, env: Mapping[str, str], layout: Layout, device: str) -> None:
    """Every kernel for `device` must load: one that does not shows here, not in a request."""
    done = subprocess.run(
        [python, "-P", "-c", kernels.LOAD_ALL, device],
        env=env,
        cwd=layout.root,
        capture_output=True,
        text=True,
    )
    faults = done.stdout.strip().splitlines()
    if done.returncode != 0:
        faults.append((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    if faults:
        raise OverlayError(
            "\n  ".join(["the kernels do not load:", *faults]),
            hint="python3 -m scripts doctor names what the machine lacks",
        )


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
