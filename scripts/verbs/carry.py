"""The verbs onto other histories: pick, roll."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from scripts.bench import needed
from scripts.carry import fork, pick, roll, threeway
from scripts.carry.threeway import Row
from scripts.core import layout
from scripts.core.errors import Conflict, OverlayError
from scripts.core.layout import Layout
from scripts.release import lookup, pin, source
from scripts.series import mails
from scripts.verbs import say


def pick_series(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    branch = args.branch or pick.default_branch(release)
    target = fork.Target(args.fork, args.onto, branch, args.patches)
    with layout.locked(where, "pick"):
        patches = mails.load(where.patches)
        if not where.clone.exists():
            source.fetch(where, release, args.source, args.git_url)
        done = pick.pick(where, release, patches, target, dry_run=args.dry_run)
    stopped = [row for row in done.rows if row.outcome == "conflict"]
    for line in (*(_stopped(done, stopped) if stopped else ()), *threeway.shown(done.rows)):
        print(line)
    if stopped:
        steps = done.steps or "without DRY_RUN=1, pick stops where you can mend it"
        names = threeway.numbers(row.name for row in stopped)
        raise Conflict(f"conflict in {names}; the fork is as it was", hint=steps)
    if args.dry_run:
        return
    if done.aside:
        print(f"what you had there beside the result is in {where.shown(done.aside)}")
    lacks = [row for row in done.rows if row.outcome in ("left out", "other version")]
    but = f" but {threeway.numbers(row.name for row in lacks)}: see above" if lacks else ""
    if not done.tip:
        print(f"nothing to pick: {args.onto} has it all{but}")
        return
    said = "picked as" if done.new else "already picked as"
    print(f"{said} branch {branch} {done.tip[:12]}, on {args.onto} {done.onto[:12]}{but}")


def _stopped(done: pick.Picked, stopped: list[Row]) -> list[str]:
    """Two lines that say what happened and what to do."""
    files = len({path for row in stopped for path in row.paths})
    first = (
        f"stopped: {threeway.numbers(row.name for row in stopped)} of {len(done.rows)} patches"
        f" conflict in {files} file{'s' * (files != 1)}; the fork is as it was"
    )
    has = [row.name for row in done.rows if row.outcome in ("conflict", "not tried") and any(
        said.startswith(f"{done.release} has ") for said in row.details)]  # fmt: skip
    skip = f", --skip what {done.release} has: {threeway.numbers(has)}" if has else ""
    todo = "mend it as the last lines say" if done.kept else "run it without DRY_RUN=1 to mend it"
    return [first, f"do: {todo}{skip}"]


def roll_pin(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    tag = lookup.named(where, release, args.tag)
    if args.tag == "latest" and tag == release.tag:
        print(f"{release.project} {tag}, the pin, is the newest release")
        return
    wish = lookup.Wish(tag, args.commit, args.source, args.git_url)
    with layout.locked(where, "roll"):
        patches = mails.load(where.patches)
        if not where.clone.exists():
            source.fetch(where, release, args.source, args.git_url)
        new = lookup.propose(where, release, wish)
        for line in lookup.shown(new):
            print(line)
        if not args.dry_run:
            _confirm(args, new)
        ask = partial(needed.ask, where, release, new, patches, say=say)
        done = roll.roll(where, release, new, patches, wish, ask, dry_run=args.dry_run, say=say)
    for line in roll.shown(done):
        print(line)
    if needed.report(where, new.tag).is_file():
        print(f"every row of the probes: {where.shown(needed.report(where, new.tag))}")
    stopped = [fate.name for fate in done.fates if fate.stops]
    if stopped and not done.moved:
        steps = done.steps or "without DRY_RUN=1, roll stops where you can mend it"
        raise Conflict(f"conflict in {', '.join(stopped)}; all is as it was", hint=steps)
    if done.moved:
        old, clone = release.branch, where.shown(where.clone)
        print(f"the pin is {new.tag}; next: make apply lint, and the locks in ci/, as they say")
        print(f"  back: git checkout patches/; git -C {clone} switch {old}")
    elif not args.dry_run:
        print(f"nothing is left to carry on {new.tag}; the pin stays {release.tag}")


def _confirm(args: argparse.Namespace, new: pin.Pin) -> None:
    """The new hashes are given, or a person looks at them."""
    sha256 = new.sdist.sha256
    if args.sha256 and args.sha256 != sha256:
        raise OverlayError(
            f"the index has {new.sdist.file} with sha256 {sha256}, not {args.sha256}",
            hint="find out where each comes from before you take one",
        )
    if args.sha256:
        return
    if not sys.stdin.isatty() or input("take this pin? [y/N] ").strip().lower() not in ("y", "yes"):
        raise OverlayError(
            f"nobody confirmed the hashes of {new.tag}; nothing was changed",
            hint=f"compare them, then make roll TAG={new.tag} SHA256={sha256}",
        )
