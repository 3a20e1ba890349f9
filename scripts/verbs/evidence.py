"""The verbs that show what the series is good for: bench, prove."""

from __future__ import annotations

import argparse

from scripts.bench import behaviour, headline, measures, page, rounds, samples, upgrade
from scripts.core import layout
from scripts.core.errors import CheckFailed, OverlayError
from scripts.core.layout import Layout
from scripts.environment import build, later, plans
from scripts.proof import prove, verdicts
from scripts.release import pin
from scripts.series import mails
from scripts.verbs import say


def measure(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    device, tags = plans.device(args.device), sorted(args.against)
    if tags and device != "cpu":
        raise OverlayError("AGAINST compares on the CPU", hint="make bench DEVICE=cpu AGAINST=…")
    known = {
        name: one.against(tags)
        for name, one in (behaviour.on(device) if tags else measures.on(device)).items()
    }
    wanted = rounds.chosen(known, args.bench)
    with layout.locked(where, "bench"):
        plan = plans.plan(where, release, args.device, args.kernels, args.targets)
        build.build(where, release, plan, say=say)
        releases = {tag: later.have(where, release, tag, say=say) for tag in tags}
        run = rounds.kept(where, rounds.made_with(where, release, plan.device, tags))
        trees = rounds.trees(where, release)
        for new in rounds.run(
            where, plan.device, trees, wanted, run, rounds=args.rounds, say=say, releases=releases
        ):
            samples.write(rounds.path(where), run := new)
        written = [page.write(where, known, run)]
        if tags:
            written += [upgrade.write(where, run, tags)]
        if args.record:
            written += upgrade.record(where, run, tags) if tags else headline.record(where)
    for name, one in wanted.items():
        print("\n".join(page.lines(one, run.measured[name])))
    if tags:
        print("\n".join(upgrade.lines(run, tags)))
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
    for line in (*done.table, *done.findings, f"every hunk: {where.shown(done.page)}"):
        print(line)
    if done.findings:
        raise CheckFailed(
            f"{len(done.findings)} hunks without proof",
            hint=f"add a test to the patch's modules, or a reason to {verdicts.EXCUSES}",
        )
