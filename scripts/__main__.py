"""`python3 -m scripts VERB`: parse arguments, print, map errors to exit codes."""

from __future__ import annotations

import argparse
import errno
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - this line is what an older Python gets to see
    print("error: Python 3.11 or newer is needed\nhint: make PYTHON=python3.12 …", file=sys.stderr)
    sys.exit(2)

from scripts import bench, build, layout, lint, pin, series, source, stack, suites
from scripts.errors import CheckFailed, OverlayError
from scripts.layout import Layout

ROOT = Path(__file__).absolute().parent.parent


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
    with layout.locked(where, "apply"):
        patches = series.load(where.patches)
        source.fetch(where, release, args.source, args.git_url)
        done = stack.apply(where, release, patches, resolve=args.resolve)
    said = "applied to" if done.changed else "already applied to"
    print(f"{done.count} patches {said} {release.project} {release.tag}")
    print(f"  {where.shown(where.clone)}, {release.branch} {done.tip[:12]}, tree {done.tree[:12]}")


def export(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "export"):
        done = stack.export(where, release, check=args.check)
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


def build_environment(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    plan = build.plan(where, release, args.device, args.kernels)
    for line in plan.shown(where):
        print(line)
    if args.dry_run:
        return
    with layout.locked(where, "build"):
        changed = build.build(where, release, plan, say=_say)
    print("built" if changed else "already built; nothing to do")


def test(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    device = build.device(args.device)
    plan = build.plan(where, release, args.device, args.kernels)
    listed = args.suites == "list"
    names = [] if listed or not args.suites else re.split(r"[\s,]+", args.suites)
    chosen = suites.choose(where, release, device, names)
    for line in suites.shown(chosen):
        print(line)
    if listed:
        return
    with layout.locked(where, "test"):
        if any(suite.needs == "venv" and not suite.why_not for suite in chosen):
            build.build(where, release, plan, say=_say)
        results = suites.run(where, chosen, device=device, say=_say)
    _conclude(results)


def check(_args: argparse.Namespace, where: Layout) -> None:
    _conclude(suites.run(where, suites.own_checks(where), device="cpu", say=_say))


def _conclude(results: list[suites.Result]) -> None:
    print()
    for result in results:
        print(f"{'ok' if result.passed else 'FAILED':<8}{result.name}: {result.summary}")
    failed = [result.name for result in results if not result.passed]
    if failed:
        raise CheckFailed(f"failed: {', '.join(failed)}", hint="see the output above")


def measure(args: argparse.Namespace, where: Layout) -> None:
    release = pin.read(where.pin_file)
    with layout.locked(where, "bench"):
        plan = build.plan(where, release, args.device, args.kernels)
        build.build(where, release, plan, say=_say)
        report = bench.warmup(where, release, plan, rounds=args.rounds, say=_say)
    for line in report:
        print(line)


def clean(_args: argparse.Namespace, where: Layout) -> None:
    with layout.locked(where, "clean"):
        for folder in filter(Path.exists, (where.venv, where.tools, where.reports)):
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
    "build": (build_environment, "make the environment with kernels for this machine"),
    "test": (test, "run the suites for this machine"),
    "check": (check, "style, types, lint, apply, export --check, tool tests"),
    "clean": (clean, "remove the environment, the tools and the reports"),
    "bench": (measure, "measure base against patched"),
}


def _one_of(*names: str) -> Callable[[str], str]:
    """An argument's type. `choices` would let a wrong value of the environment pass."""

    def parse(value: str) -> str:
        if value not in names:
            raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(names)}")
        return value

    return parse


def _on(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


def _parser() -> argparse.ArgumentParser:
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="python3 -m scripts", description=__doc__)
    parser.add_argument("--vllm-dir", default=env("VLLM_DIR"), help="a checkout of yours to use")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, (_, text) in VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text)
        if name in ("fetch", "apply"):
            kinds = _one_of("sdist", "git")
            verb.add_argument("--source", type=kinds, default=env("SOURCE") or "sdist")
        if name in ("fetch", "apply", "verify"):
            verb.add_argument("--git-url", default=env("GIT_URL", ""))
        if name == "apply":
            verb.add_argument("--resolve", action="store_true", default=_on("RESOLVE"))
        if name == "export":
            verb.add_argument("--check", action="store_true", default=_on("CHECK"))
        if name in ("build", "test", "bench"):
            verb.add_argument("--device", default=env("DEVICE") or "auto")
            modes = _one_of(*build.MODES)
            verb.add_argument("--kernels", type=modes, default=env("KERNELS") or "auto")
        if name == "build":
            verb.add_argument("--dry-run", action="store_true", default=_on("DRY_RUN"))
        if name == "test":
            verb.add_argument("--suites", default=env("SUITES", ""))
        if name == "bench":
            verb.add_argument("--rounds", type=int, default=env("ROUNDS") or "5")
    return parser


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


def _without_secrets(message: str) -> str:
    """The user and password of a URL stay out of logs."""
    return re.sub(r"://[^/@\s]+@", "://", message)


def main() -> int:
    for stream in (sys.stdout, sys.stderr):  # a file name may be no text, a terminal no Unicode
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    args = _parser().parse_args()
    where = Layout.of(ROOT, args.vllm_dir)
    try:
        try:
            VERBS[args.verb][0](args, where)
        except OSError as error:
            raise _told(error, where) from error
    except OverlayError as error:
        sys.stdout.flush()
        print(f"error: {_without_secrets(str(error))}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
