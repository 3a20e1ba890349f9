"""The verbs on the series: fetch, verify, apply, export, lint, status.

What one of them alone needs is loaded there: `status` is typed often.
"""

from __future__ import annotations

import argparse
import os
import shlex

from scripts.core import layout
from scripts.core.errors import CheckFailed, OverlayError
from scripts.core.layout import Layout
from scripts.release import pin, source
from scripts.series import mails, stack


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
    from scripts.core import packages

    release = pin.read(where.pin_file)
    for line in packages.notes(os.environ):
        print(f"make test will refuse: {line}")  # it costs nothing to know before the download
    with layout.locked(where, "apply"):
        patches = mails.load(where.patches)
        source.fetch(where, release, args.source, args.git_url)
        done = stack.apply(where, release, patches, resolve=args.resolve)
    said = "applied to" if done.changed else "already applied to"
    print(f"{done.count} patches {said} {release.project} {release.tag}")
    print(f"  {where.shown(where.clone)}, {release.branch} {done.tip[:12]}, tree {done.tree[:12]}")


def export(args: argparse.Namespace, where: Layout) -> None:
    from scripts.series import dist

    release = pin.read(where.pin_file)
    if args.check and args.dist:
        raise OverlayError("CHECK=1 writes nothing, DIST wants files", hint="leave one of them out")
    with layout.locked(where, "export"):
        done = stack.export(where, release, check=args.check)
        written = dist.write(where, release, args.dist) if args.dist else None
    for name in done.written:
        print(f"{'differs' if args.check else 'written'}  {name}")
    for name in done.removed:
        kept = where.shown(where.removed)
        print(f"no commit  {name}" if args.check else f"removed  {name} (kept in {kept}/)")
    if args.check and (done.written or done.removed):
        raise CheckFailed(
            f"{where.shown(where.patches)}/ is not what {release.branch} holds",
            hint="make export to write the commits down, make apply to take the files",
        )
    unchanged = done.total - len(done.written)
    print(f"{unchanged} of {done.total} patches unchanged")
    if written:
        folder, files = written
        print(f"{len(files)} files in {where.shown(folder)}/")
        mbox = shlex.quote(str(folder / dist.mbox_name(release)))
        print(f"  in any checkout of {release.tag}: git am --3way --keep --keep-cr {mbox}")


def lint_series(_args: argparse.Namespace, where: Layout) -> None:
    from scripts.series import lint

    found = lint.lint(where.patches, where.root)
    for one in found:
        kind = "note" if one.note else "fault"
        print(f"{kind:<5}  {one.patch or 'patches/'}: {one.rule}: {one.message}")
    faults = sum(not one.note for one in found)
    print(f"{len(mails.names(where.patches))} patches, {len(lint.RULES)} rules, {faults} faults")
    if faults:
        raise CheckFailed(f"{faults} faults in the series", hint="see patches/README.md")


def status(_args: argparse.Namespace, where: Layout) -> None:
    from scripts.series import standing

    release = pin.read(where.pin_file)
    patches = mails.load(where.patches)
    print(f"pin     {release.project} {release.tag} {release.commit[:12]}")
    if where.kept.is_dir():
        from scripts.carry import kept

        for place, marks in kept.waiting(where).items():
            print(f"waiting {where.shown(place)}: {marks.get('again', 'unknown work')}")
    if not where.clone.exists():
        print(f"series  {len(patches)} patches, not applied")
        raise OverlayError(f"{where.shown(where.clone)} is not there yet", hint="make apply")
    report = standing.report(where, release, patches)
    print(f"series  {len(patches)} patches")
    for name, said in report.patches:
        print(f"  {said:<12}  {name}")
    print(
        f"branch  {release.branch} {report.tip[:12] or 'missing'}, tree {report.tree[:12] or '-'}"
    )
    print(f"drift   {report.drift[0] if report.drift else 'none'}")
    for line in report.drift[1:]:
        print(f"        {line}")
