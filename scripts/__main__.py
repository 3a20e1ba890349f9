"""`python3 -m scripts VERB`: parse arguments, print, map errors to exit codes."""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TextIO, cast

if sys.version_info < (3, 11):  # noqa: UP036 - this line is what an older Python gets to see
    print("error: Python 3.11 or newer is needed\nhint: make PYTHON=python3.12 …", file=sys.stderr)
    sys.exit(2)

from scripts import (
    annotation,
    baseline,
    bench,
    benchpage,
    build,
    carry,
    dist,
    doctor,
    each,
    fork,
    headline,
    hub,
    layout,
    lint,
    machine,
    measures,
    options,
    packages,
    pin,
    pipeline,
    prove,
    record,
    report,
    roll,
    samples,
    series,
    sessions,
    shards,
    source,
    stack,
    suites,
    upstream,
    verdicts,
)
from scripts import release as releases
from scripts.errors import CheckFailed, Conflict, OverlayError
from scripts.layout import Layout

ROOT = Path(__file__).absolute().parent.parent
_SHOWN = 20  # findings of a suite in the terminal; the report has them all


def fetch(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "fetch"):
        new = source.fetch(where, release, args.source, args.git_url)
    said = "fetched into" if new else "already in"
    print(f"{release.project} {release.tag} {said} {where.shown(where.clone)}")


def verify(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "verify"):
        found = source.verify(where, release, args.git_url)
    print(f"{release.sdist.file}: sha256 {release.sdist.sha256} as pinned")
    for pair in found:
        print(f"{pair.left} and {pair.right}: {pair.equal} files are equal")
        for line in (*pair.faults, *pair.others):
            print(f"  {line}")
    if not found:
        print("nothing to compare it with: no work clone, no GIT_URL")
    if any(pair.faults for pair in found):
        raise CheckFailed("the sources do not agree where they must", hint="see the files above")


def apply(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    lacking = packages.missing(os.environ)
    if lacking:
        print(f"make test will ask for more of this machine: {packages.line(lacking)}")
    with layout.locked(where, "apply"):
        patches = series.load(where.patches)
        source.fetch(where, release, args.source, args.git_url)
        done = stack.apply(where, release, patches, resolve=args.resolve)
    said = "applied to" if done.changed else "already applied to"
    print(f"{done.count} patches {said} {release.project} {release.tag}")
    print(f"  {where.shown(where.clone)}, {release.branch} {done.tip[:12]}, tree {done.tree[:12]}")


def export(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    if args.check and args.dist:
        raise OverlayError("CHECK=1 writes nothing, DIST wants files", hint="leave one of them out")
    with layout.locked(where, "export"):
        done = stack.export(where, release, check=args.check)
        written = dist.write(where, release, args.dist) if args.dist else None
    for name in done.written:
        print(f"{'differs' if args.check else 'written'}  {name}")
    for name in done.removed:
        kept = where.shown(where.build / "removed")
        print(f"no commit  {name}" if args.check else f"removed  {name} (kept in {kept}/)")
    if args.check and (done.written or done.removed):
        raise CheckFailed(
            f"{where.shown(where.patches)}/ is not what {release.branch} holds",
            hint="make export to write the commits down, make apply to take the files",
        )
    unchanged = done.total - len(done.written)
    print(f"{unchanged} of {done.total} patches unchanged")
    if written:
        print(f"{len(written[1])} files in {where.shown(written[0])}/")


def lint_series(_args: argparse.Namespace, where: Layout) -> None:
    found = lint.lint(where.patches, where.root)
    for one in found:
        kind = "note" if one.note else "fault"
        print(f"{kind:<5}  {one.patch or 'patches/'}: {one.rule}: {one.message}")
    faults = sum(not one.note for one in found)
    print(f"{len(series.names(where.patches))} patches, {len(lint.RULES)} rules, {faults} faults")
    if faults:
        raise CheckFailed(f"{faults} faults in the series", hint="see patches/README.md")


def status(_args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    patches = series.load(where.patches)
    print(f"pin     {release.project} {release.tag} {release.commit[:12]}")
    if not where.clone.exists():
        print(f"series  {len(patches)} patches, not applied")
        raise OverlayError(f"{where.shown(where.clone)} is not there yet", hint="make apply")
    report = stack.report(where, release, patches)
    print(f"series  {len(patches)} patches")
    for name, said in report.patches:
        print(f"  {said:<12}  {name}")
    print(
        f"branch  {release.branch} {report.tip[:12] or 'missing'}, tree {report.tree[:12] or '-'}"
    )
    print(f"drift   {report.drift[0] if report.drift else 'none'}")
    for line in report.drift[1:]:
        print(f"        {line}")


def examine(args: argparse.Namespace, where: Layout) -> None:
    device = build.device(args.device)
    native = build.prebuilt(device) if args.kernels == "auto" else args.kernels
    found = _findings(where, device, native, run=True)
    as_json = json.dumps([asdict(one) for one in found], indent=1)
    print(as_json if args.json else "\n".join(one.shown for one in found))
    doctor.refuse(found)


def _findings(where: Layout, device: str, kernels: str, *, run: bool) -> list[doctor.Finding]:
    found = machine.look(where, machine.here())
    return doctor.examine(found, device=device, kernels=kernels, run=run)


def _preflight(where: Layout, plan: build.Plan, *, run: bool) -> None:
    """Before minutes of work: say what may go wrong, refuse what must."""
    found = _findings(where, plan.device, plan.kernels, run=run)
    for one in found:
        if one.state != "ok":
            print(one.shown)
    doctor.refuse(found)


def build_environment(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    plan = build.plan(where, release, args.device, args.kernels, args.targets)
    for line in plan.shown(where):
        print(line)
    if args.dry_run:
        return
    _preflight(where, plan, run=False)
    with layout.locked(where, "build"):
        changed = build.build(where, release, plan, say=_say)
    print("built" if changed else "already built; nothing to do")


def test(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    device = build.device(args.device)
    plan = build.plan(where, release, args.device, args.kernels, args.targets)
    listed = args.suites == "list"
    share = shards.asked(args.shard, os.environ)
    names = [] if listed else _names(args.suites)
    if not listed and names != ["tools"]:
        _preflight(where, plan, run=True)  # before `choose`, which may get our tools
    chosen = suites.choose(where, release, device, names, share)
    for line in suites.shown(chosen):
        print(line)
    if listed:
        return
    with layout.locked(where, "test"):
        if any(suite.needs == "venv" and not suite.why_not for suite in chosen):
            build.build(where, release, plan, say=_say)
            build.require_own_tree(where)
        results = suites.run(where, chosen, device=device, say=_say)
        page = report.write(where, release, device, chosen, results)
        annotation.leave(where, device, share, chosen, results)
    _conclude(results)
    print(f"the whole of it: {where.shown(page)}")


def _names(asked_for: str) -> list[str]:
    return re.split(r"[\s,]+", asked_for) if asked_for else []


def record_baseline(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    device = build.device(args.device)
    plan = build.plan(where, release, args.device, args.kernels, args.targets)
    old = baseline.read(where, hub.tier(device))
    wanted = suites.wanted(_names(args.suites))
    chosen = upstream.choose(where, release, device, wanted, old)
    for line in upstream.shown(chosen, sessions.jobs(device)):
        print(line)
    with layout.locked(where, "baseline"):
        build.build(where, release, plan, say=_say)
        build.require_own_tree(where)
        runs = [choice.suite for choice in chosen if not choice.why_not]
        written = record.record(where, release, device, runs, old, _say)
    for path in written:
        print(f"written  {where.shown(path)}")


def check(args: argparse.Namespace, where: Layout) -> None:
    if args.patches and not args.each:
        raise OverlayError("PATCHES is a part of EACH=1", hint="make check EACH=1 PATCHES=1,3-4")
    asked = series.chosen(series.load(where.patches), args.patches) if args.each else set()
    results = suites.run(where, suites.own_checks(where), device="cpu", say=_say)
    if args.each:
        release = pin.read(where.pin_file)
        with layout.locked(where, "check"):
            plan = build.plan(where, release, "auto", "auto")
            build.build(where, release, plan, say=_say)
            results += each.replay(
                where, release, series.load(where.patches), asked,
                style=each.style(where), device=plan.device, say=_say,
            )  # fmt: skip
    _conclude(results)


def pick(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    branch = args.branch or fork.default_branch(release)
    target = fork.Target(args.fork, args.onto, branch, args.patches)
    with layout.locked(where, "pick"):
        patches = series.load(where.patches)
        if not where.clone.exists():
            source.fetch(where, release, args.source, args.git_url)
        done = fork.pick(where, release, patches, target, dry_run=args.dry_run)
    for line in carry.shown(done.rows):
        print(line)
    conflicts = [row.name for row in done.rows if row.outcome == "conflict"]
    if conflicts:
        steps = done.steps or "without DRY_RUN=1, pick stops where you can mend it"
        raise Conflict(f"conflict in {', '.join(conflicts)}; the fork is as it was", hint=steps)
    if args.dry_run:
        return
    if not done.tip:
        print(f"nothing to pick: {args.onto} has it all")
        return
    said = "picked as" if done.new else "already picked as"
    print(f"{said} branch {branch} {done.tip[:12]}, on {args.onto} {done.onto[:12]}")


def roll_pin(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    tag = releases.named(where, release, args.tag)
    if args.tag == "latest" and tag == release.tag:
        print(f"{release.project} {tag}, the pin, is the newest release")
        return
    wish = releases.Wish(tag, args.commit, args.source, args.git_url)
    with layout.locked(where, "roll"):
        patches = series.load(where.patches)
        if not where.clone.exists():
            source.fetch(where, release, args.source, args.git_url)
        new = releases.propose(where, release, wish)
        for line in releases.shown(new):
            print(line)
        if not args.dry_run:
            _confirm(args, new)
        done = roll.roll(where, release, new, patches, wish, dry_run=args.dry_run, say=_say)
    for line in roll.shown(done):
        print(line)
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


def _conclude(results: list[suites.Result]) -> None:
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


def measure(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    wanted = bench.chosen(measures.on(build.device(args.device)), _names(args.bench))
    with layout.locked(where, "bench"):
        plan = build.plan(where, release, args.device, args.kernels, args.targets)
        build.build(where, release, plan, say=_say)
        run = bench.kept(where, bench.made_with(where, release, plan.device))
        trees = bench.trees(where, release)
        for new in bench.run(where, plan.device, trees, wanted, run, rounds=args.rounds, say=_say):
            samples.write(bench.path(where), run := new)
        written = [benchpage.write(where, measures.MEASUREMENTS, run)]
        written += headline.record(where) if args.record else []
    for name, one in wanted.items():
        print("\n".join(benchpage.lines(one, run.measured[name])))
    for path in written:
        print(f"written  {where.shown(path)}")
    failed = bench.failures(run)
    if failed:
        raise CheckFailed("\n  ".join(["some figures are missing:", *failed]), hint="see the logs")


def prove_hunks(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "prove"):
        plan = build.plan(where, release, args.device, args.kernels, args.targets)
        build.build(where, release, plan, say=_say)
        patches = series.load(where.patches)
        done = prove.prove(
            where, release, patches, args.patches, plan.device, _say, record=args.record
        )
    for line in (*done.table, *done.findings, f"every hunk: {where.shown(done.report)}"):
        print(line)
    if done.findings:
        raise CheckFailed(
            f"{len(done.findings)} hunks without proof",
            hint=f"add a test to the patch's modules, or a reason to {verdicts.EXCUSES}",
        )


def emit_pipeline(_args: argparse.Namespace, where: Layout) -> None:
    print(pipeline.generate(where, pipeline.settings(os.environ)), end="")


def clean(_args: argparse.Namespace, where: Layout) -> None:
    with layout.locked(where, "clean"):
        made = (where.venv, where.pycache, where.tools, where.style, where.reports)
        for folder in filter(Path.exists, made):
            shutil.rmtree(folder)
    print("removed environment, tools and reports; the work clone and the downloads stay")


def _say(line: str) -> None:
    print(line, flush=True)


Verb = Callable[[argparse.Namespace, Layout], None]
VERBS: dict[str, tuple[Verb, str]] = {
    "fetch": (fetch, "get the pinned source into the work clone"),
    "verify": (verify, "prove the source's hash; compare the sources at hand"),
    "apply": (apply, "put the series on the pinned source"),
    "export": (export, "write the commits of the work clone as the series"),
    "lint": (lint_series, "rules over the series"),
    "status": (status, "pin, series, what is applied, drift"),
    "doctor": (examine, "is this machine fit for the device and kernel mode"),
    "build": (build_environment, "make the environment with kernels for this machine"),
    "test": (test, "run the suites for this machine"),
    "baseline": (record_baseline, "record what upstream's tests do without the series"),
    "check": (check, "style, types, lint, apply, export --check"),
    "pick": (pick, "put the series on a new branch of a fork"),
    "roll": (roll_pin, "move the pin to a new release"),
    "pipeline": (emit_pipeline, "the Buildkite pipeline, for `buildkite-agent pipeline upload`"),
    "clean": (clean, "remove the environment, the tools and the reports"),
    "bench": (measure, "measure base against patched"),
    "prove": (prove_hunks, "take each hunk away: does a test notice"),
}


def _told(error: OSError, where: Layout) -> OverlayError:
    """What the system refuses, in terms of what a person can do about it."""
    place = error.filename or where.shown(where.build)
    if error.errno == errno.ENOSPC:
        return OverlayError(f"no disk space left at {place}", hint="free some, then run this again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return OverlayError(
            f"cannot write {place}: {error.strerror}",
            hint=f"make {where.shown(Path(place).parent)} writable for this user",
        )
    raise error


class _Discreet(io.TextIOWrapper):
    """A stream that keeps the user and the password of a URL out of terminals and logs.

    A file name may be no text, and a terminal no Unicode.
    """

    def __init__(self, stream: TextIO) -> None:
        encoding, eager = stream.encoding, bool(stream.line_buffering)
        raw = cast(io.TextIOWrapper, stream).detach()
        super().__init__(raw, encoding, "backslashreplace", line_buffering=eager)

    def write(self, text: str) -> int:
        return super().write(re.sub(r"://[^/\s]+@", "://", text))


def main() -> int:
    sys.stdout, sys.stderr = _Discreet(sys.stdout), _Discreet(sys.stderr)
    args = options.parser({name: text for name, (_, text) in VERBS.items()}, __doc__).parse_args()
    where = Layout.of(ROOT, args.vllm_dir)
    try:
        try:
            VERBS[args.verb][0](args, where)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _told(error, where) from error
    except OverlayError as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
