"""The verbs that show what the series is good for: bench, prove."""

from __future__ import annotations

import argparse

from scripts.bench import headline, measures, page, rounds, samples
from scripts.core import layout
from scripts.core.errors import CheckFailed
from scripts.core.layout import Layout
from scripts.environment import build, plans
from scripts.proof import prove, verdicts
from scripts.release import pin
from scripts.series import mails
from scripts.verbs import say


def measure(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    wanted = rounds.chosen(measures.on(plans.device(args.device)), args.bench)
    with layout.locked(where, "bench"):
        plan = plans.plan(where, release, args.device, args.kernels, args.targets)
        build.build(where, release, plan, say=say)
        run = rounds.kept(where, rounds.made_with(where, release, plan.device))
        trees = rounds.trees(where, release)
        for new in rounds.run(where, plan.device, trees, wanted, run, rounds=args.rounds, say=say):
            samples.write(rounds.path(where), run := new)
        written = [page.write(where, measures.MEASUREMENTS, run)]
        written += headline.record(where) if args.record else []
    for name, one in wanted.items():
        print("\n".join(page.lines(one, run.measured[name])))
    for path in written:
        print(f"written  {where.shown(path)}")
    failed = rounds.failures(run)
    if failed:
        raise CheckFailed("\n  ".join(["some figures are missing:", *failed]), hint="see the logs")


def prove_hunks(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "prove"):
        plan = plans.plan(where, release, args.device, args.kernels, args.targets)
        build.build(where, release, plan, say=say)
        patches = mails.load(where.patches)
        done = prove.prove(
            where, release, patches, args.patches, plan.device, say, record=args.record
        )
    for line in (*done.table, *done.findings, f"every hunk: {where.shown(done.report)}"):
        print(line)
    if done.findings:
        raise CheckFailed(
            f"{len(done.findings)} hunks without proof",
            hint=f"add a test to the patch's modules, or a reason to {verdicts.EXCUSES}",
        )
