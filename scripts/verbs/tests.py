"""The verbs that test: test, baseline, check, pipeline."""

from __future__ import annotations

import argparse
import os

from scripts.core import layout
from scripts.core.errors import CheckFailed, OverlayError
from scripts.core.layout import Layout
from scripts.environment import build, hub, plans
from scripts.release import pin
from scripts.series import mails
from scripts.suites import (
    annotation,
    baseline,
    budget,
    each,
    pipeline,
    record,
    report,
    runner,
    sessions,
    shards,
    upstream,
)
from scripts.verbs import say
from scripts.verbs.environment import preflight

_SHOWN = 20  # findings of a suite in the terminal; the report has them all


def test(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    device = plans.device(args.device)
    plan = plans.plan(where, release, args.device, args.kernels, args.targets)
    listed = args.suites == ["list"]
    share = shards.asked(args.shard, os.environ)
    names = [] if listed else args.suites
    if not listed and names != ["tools"]:
        preflight(where, plan, run=True)  # before `choose`, which may get our tools
    chosen = runner.choose(where, release, device, names, share, args.transformers)
    for line in runner.shown(chosen):
        print(line)
    if listed:
        return
    with layout.locked(where, "test"):
        if any(suite.needs == "venv" and not suite.why_not for suite in chosen):
            build.build(where, release, plan, say=say)
            build.require_own_tree(where)
        results = runner.run(where, chosen, device=device, say=say)
        page = report.write(where, release, device, chosen, results)
        annotation.leave(where, device, share, chosen, results)
    _conclude(results)
    print(f"the whole of it: {where.shown(page)}")


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
    results = runner.run(where, runner.own_checks(where), device="cpu", say=say)
    if args.each:
        release = pin.read(where.pin_file)
        with layout.locked(where, "check"):
            plan = plans.plan(where, release, "auto", "auto")
            build.build(where, release, plan, say=say)
            results += each.replay(
                where, release, mails.load(where.patches), asked,
                style=each.style(where), device=plan.device, say=say,
            )  # fmt: skip
    _conclude(results)


def _conclude(results: list[runner.Result]) -> None:
    print()
    for result in results:
        print(f"{'ok' if result.passed else 'FAILED':<8}{result.name}: {result.summary}")
        for line in result.findings[:_SHOWN]:
            print(f"        {line}")
        if len(result.findings) > _SHOWN:
            print(f"        … and {len(result.findings) - _SHOWN} more, see the report")
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise CheckFailed(f"failed: {', '.join(failed)}", hint="see the output above")


def emit_pipeline(_args: argparse.Namespace, where: Layout) -> None:
    print(pipeline.generate(where, pipeline.settings(os.environ)), end="")
