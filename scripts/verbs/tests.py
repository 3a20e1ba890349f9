"""The verbs that test: test, baseline, check, pipeline."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from scripts.bench import headline
from scripts.core import layout
from scripts.core.errors import CheckFailed, OverlayError
from scripts.core.layout import Layout
from scripts.environment import build, hub, plans
from scripts.proof import changed, hunks, prove, witnesses
from scripts.release import pin
from scripts.series import mails
from scripts.suites import (
    annotation,
    baseline,
    budget,
    each,
    only,
    pipeline,
    record,
    report,
    runner,
    sessions,
    shards,
    shortlist,
    upstream,
)
from scripts.verbs import note, say
from scripts.verbs.environment import preflight

_SHOWN = 10  # failures in the terminal; the page has them all


def test(args: argparse.Namespace, where: Layout) -> None:
    if args.only:
        _only(args, where)
        return
    release = pin.read(where.pin_file)
    device = plans.device(args.device)
    plan = plans.plan(where, release, args.device, args.kernels, args.targets)
    listed = args.suites == ["list"]
    share = shards.asked(args.shard, os.environ)
    names = [] if listed else args.suites
    if not listed and names != ["tools"]:
        preflight(where, plan, run=True)  # before `choose`, which may get our tools
    if args.changed:
        chosen = _changed(where, runner.own(where, device, args.transformers), args.changed)
    else:
        chosen = runner.choose(where, release, device, names, share, args.transformers)
    for line in shortlist.shown(chosen, whole=listed):
        print(line)
    if listed:
        return
    with layout.locked(where, "test"):
        if any(suite.needs == "venv" and not suite.why_not for suite in chosen):
            build.build(where, release, plan, say=say)
            build.require_own_tree(where)
        results = runner.run(where, chosen, device=device, say=say, note=note)
        patches = mails.load(where.patches)
        proven = witnesses.proven(where, hunks.keys(patches, prove.BELOW))
        figures = headline.by_patch(where, patches)
        run = report.Run(device, chosen, results, patches, proven, figures)
        page = report.write(where, release, run)
        annotation.leave(where, device, share, results)
    _conclude(where, results, page)


def _changed(where: Layout, own: list[runner.Suite], asked: str) -> list[runner.Suite]:
    found = changed.since(where, asked, prove.BELOW)
    print(f"{len(found.files)} files differ from {found.since}")
    return shortlist.narrowed(own, found.tests, "tests for what changed")


def _only(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "test"):
        if only.needs(args.only) == "venv":
            plan = plans.plan(where, release, args.device, args.kernels, args.targets)
            preflight(where, plan, run=True)
            build.build(where, release, plan, say=say)
            build.require_own_tree(where)
        only.run(where, plans.device(args.device), args.only, say)


def record_baseline(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    device = plans.device(args.device)
    plan = plans.plan(where, release, args.device, args.kernels, args.targets)
    old = baseline.read(where, hub.tier(device))
    wanted = runner.wanted(args.suites)
    chosen = budget.plan(where, release, device, wanted, old)
    for line in upstream.shown(chosen, sessions.jobs(device)):
        print(line)
    with layout.locked(where, "baseline"):
        build.build(where, release, plan, say=say)
        build.require_own_tree(where)
        runs = [choice.suite for choice in chosen if not choice.why_not]
        written = record.record(where, release, device, runs, old, say)
    for path in written:
        print(f"written  {where.shown(path)}")


def check(args: argparse.Namespace, where: Layout) -> None:
    if args.patches and not args.each:
        raise OverlayError("PATCHES is a part of EACH=1", hint="make check EACH=1 PATCHES=1,3-4")
    asked = mails.chosen(mails.load(where.patches), args.patches) if args.each else set()
    results = runner.run(where, runner.own_checks(where), device="cpu", say=say, note=note)
    if args.each:
        release = pin.read(where.pin_file)
        with layout.locked(where, "check"):
            plan = plans.plan(where, release, "auto", "auto")
            build.build(where, release, plan, say=say)
            results += each.replay(
                where, release, mails.load(where.patches), asked,
                style=each.style(where), device=plan.device, say=say, note=note,
            )  # fmt: skip
    _conclude(where, results)


def _conclude(where: Layout, results: list[runner.Result], page: Path | None = None) -> None:
    """Failures last, each with what to type."""
    failures = [case for result in results for case in result.failures]
    for case in failures[:_SHOWN]:
        of = f" (patch {case.patch})" if case.patch[:1].isdigit() else ""
        print(f"\nFAILED  {case.test}{of}")
        for line in (case.first_line, case.again, where.shown(case.log)):
            print(f"        {line}")
    if len(failures) > _SHOWN:
        print(f"\n… and {len(failures) - _SHOWN} more")
    if page:
        print(f"\nthe whole of it: {where.shown(page)}")
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise CheckFailed(f"failed: {', '.join(failed)}", hint="see above")


def emit_pipeline(_args: argparse.Namespace, where: Layout) -> None:
    print(pipeline.generate(where, pipeline.settings(os.environ)), end="")
