"""Where the kernels come from, and with which commands: decided and shown, nothing made."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.core import tools
from scripts.core.errors import OverlayError
from scripts.core.git import Git
from scripts.core.layout import Layout
from scripts.environment import machine, native
from scripts.release import index, source
from scripts.release.pin import Artefact, Pin
from scripts.series import lint

DEVICES = ("cpu", "cuda")
NONE = "none"
"""The kernels of a release without a wheel, of which only what needs none is asked."""


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
                f"compile  {assigned(self.compile_env)} {python} {shlex.join(native.COMPILE)}"
            )
        return [*lines, f"install  {assigned(self.env)} {shlex.join(install_command(layout))}"]


def assigned(env: Mapping[str, str]) -> str:
    return " ".join(f"{k}={shlex.quote(v)}" for k, v in sorted(env.items()))


def plan(
    layout: Layout, pin: Pin, asked_device: str, asked_kernels: str, targets: str = ""
) -> Plan:
    """Choose device, kernel mode and environment; the patched tree must be there.

    Of `targets`, extensions by name, only these are compiled; the wheel has the others.
    """
    git = Git(layout.clone)
    chosen = device(asked_device)
    mode, why = _mode(chosen, asked_kernels, _changed(git, source.base(layout, pin)))
    local = "+cpu" if chosen == "cpu" else ""
    env = {"VLLM_VERSION_OVERRIDE": pin.version + local}
    if targets and mode != "source":
        raise OverlayError(
            f"TARGETS is a part of KERNELS=source, and the kernels are {mode} ({why})",
            hint=f"make build KERNELS=source TARGETS={shlex.quote(targets)}",
        )
    wheel = pin.wheel(chosen) if targets or mode not in ("source", NONE) else None
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
        compile_env |= native.environment(found, os.environ, chosen)
        if targets:
            compile_env["TARGETS"] = ",".join(targets.replace(",", " ").split())
    inputs = git.out("ls-tree", "HEAD", "pyproject.toml", *lint.NATIVE)
    inputs += git.out("diff", "HEAD", "--", *lint.NATIVE)  # what is not committed is compiled, too
    return Plan(chosen, mode, why, wheel, env, compile_env, inputs)


def _changed(git: Git, base: str) -> list[str]:
    """Files for which the kernels must be compiled: changed since `base`, by a commit that does
    not say that the wheel's kernels stay the same, or by none yet.
    """
    names = ("--name-only", "--no-renames")
    counted, excused = set(git.lines("diff", *names, "HEAD")), set[str]()
    form = "--format=%x00%(trailers:key=Kernels,valueonly,separator=%x2C)"
    for commit in git.out("log", *names, form, f"{base}..HEAD").split("\0")[1:]:
        said, *files = commit.splitlines()
        (excused if lint.UNCHANGED.fullmatch(said) else counted).update(files)
    changed = [path for path in git.lines("diff", *names, base) if path.startswith(lint.NATIVE)]
    return [path for path in changed if path in counted or path not in excused]


def prebuilt(device: str) -> str:
    """The kernel mode that compiles nothing."""
    return "precompiled" if device == "cuda" else "cpu"


def _mode(device: str, asked: str, changed: list[str]) -> tuple[str, str]:
    if asked in ("source", NONE):
        return asked, "as asked"
    if changed:
        if asked == "auto":
            return "source", f"the series touches {changed[0]}"
        raise OverlayError(
            f"KERNELS={asked} cannot work: the series touches {changed[0]}",
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


def install_command(layout: Layout) -> list[str]:
    uv = str(tools.python(layout).with_name("uv"))
    return [uv, "pip", "install", "--no-deps", "--no-build-isolation", "-e", str(layout.clone)]
