"""The verbs on the environment: doctor, build, clean."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict

from scripts.core import layout
from scripts.core.layout import Layout
from scripts.environment import build, doctor, machine, plans
from scripts.release import pin
from scripts.verbs import say


def examine(args: argparse.Namespace, where: Layout) -> None:
    device = plans.device(args.device)
    native = plans.prebuilt(device) if args.kernels == "auto" else args.kernels
    found = _findings(where, device, native, run=True)
    as_json = json.dumps([asdict(one) for one in found], indent=1)
    print(as_json if args.json else "\n".join(one.shown for one in found))
    doctor.refuse(found)


def _findings(where: Layout, device: str, kernels: str, *, run: bool) -> list[doctor.Finding]:
    found = machine.look(where, machine.here())
    return doctor.examine(found, device=device, kernels=kernels, run=run)


def preflight(where: Layout, plan: plans.Plan, *, run: bool) -> None:
    """Before minutes of work: say what may go wrong, refuse what must."""
    found = _findings(where, plan.device, plan.kernels, run=run)
    for one in found:
        if one.state != "ok":
            print(one.shown)
    doctor.refuse(found)


def make(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    plan = plans.plan(where, release, args.device, args.kernels, args.targets)
    for line in plan.shown(where):
        print(line)
    if args.dry_run:
        return
    preflight(where, plan, run=False)
    with layout.locked(where, "build"):
        changed = build.build(where, release, plan, say=say)
    print("built" if changed else "already built; nothing to do")


def clean(_args: argparse.Namespace, where: Layout) -> None:
    with layout.locked(where, "clean"):
        # What a person may have work in, and what takes long to get.
        stay = {where.build / "vllm", where.clone, where.downloads, where.kept, where.removed}
        for made in set(where.build.iterdir()) - stay - {where.build / ".lock"}:
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made)
            else:
                made.unlink()
    print("removed environment, tools and reports; the work clone and the downloads stay")
