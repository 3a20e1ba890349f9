"""Move the pin to a new release: re-apply 3-way, say of each patch where it stands there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.carry import bare, history, kept, threeway
from scripts.carry.threeway import Item, Row
from scripts.core.errors import OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import SCRATCH, Layout, write_whole
from scripts.environment import later
from scripts.release import lookup, source
from scripts.release import pin as pins
from scripts.release.pin import Pin
from scripts.series import clone, mails, stack
from scripts.series.mails import Patch
from scripts.series.written import exported

Say = Callable[[str], None]
Verdict = Literal["unchanged", "shifted", "upstreamed", "upstreamed differently", "left out",
                  "conflict", "not tried"]  # fmt: skip


@dataclass(frozen=True)
class _Words:
    """What is said of a patch on a release: by its trailers, by the release's history, by tests."""

    trailers: str
    history: str
    tested: bare.Outcome


@dataclass(frozen=True)
class Fate:
    """Where one patch stands on the new release; `carried` where it stays in the series."""

    name: str
    verdict: Verdict
    details: tuple[str, ...]
    carried: bool
    stops: bool = False
    """True where a person has to decide."""


@dataclass(frozen=True)
class Rolled:
    """The outcome of `roll`: `moved` where pin, patches and work clone are the new release's.

    `kept` is where a person goes on after a conflict, with `steps` as what to type.
    """

    fates: tuple[Fate, ...]
    summary: tuple[str, ...] = ()
    moved: bool = False
    kept: Path | None = None
    steps: str = ""


def shown(done: Rolled) -> list[str]:
    """What became of each patch, and the summary of the range-diff."""
    lines = []
    for fate in done.fates:
        lines.append(f"{fate.name}: {fate.verdict}{'' if fate.carried else ', not carried'}")
        lines += [line for detail in fate.details for line in threeway.wrapped(detail)]
    return [*lines, *done.summary]


def roll(
    layout: Layout,
    pin: Pin,
    new: Pin,
    patches: tuple[Patch, ...],
    wish: lookup.Wish,
    ask: Callable[[], Mapping[str, bare.Outcome]],
    *,
    dry_run: bool,
    say: Say,
) -> Rolled:
    """Carry the series onto `new`. All is moved, or nothing: a conflict is for a person (`kept`).

    `ask` gives what probes say of a patch, by its name; of others their regression tests do. With
    `dry_run` it only reports.
    """
    _refuse(layout, pin, new, patches, wish, dry_run=dry_run)
    place = layout.kept / f"roll-{new.tag}"
    if place.exists() and not dry_run:
        return _finish(layout, pin, new, patches, place)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=layout.build) as folder:
        there = Layout(Path(folder), Path(folder) / "build" / "vllm", adopted=False)
        later.root(layout, there)
        say(f"{new.project} {new.tag} from {wish.kind} …")
        source.fetch(there, new, wish.kind, wish.url)
        _refuse_other_commit(there, new)
        bare.lend_pinned(layout, pin, there)
        asked = ask()
        unasked = [patch for patch in patches if patch.name not in asked]
        tested = {**asked, **bare.test(layout, pin, new, unasked, say=say)}
        known, claimed = history.in_release(there, pin, new, patches, wish)
        words = {patch.name: _Words(known.get(patch.name, ""), claimed.get(patch.name, ""),
                                    tested[patch.name]) for patch in patches}  # fmt: skip
        return _carry(layout, pin, new, patches, there, words, dry_run=dry_run)


def _refuse(
    layout: Layout,
    pin: Pin,
    new: Pin,
    patches: tuple[Patch, ...],
    wish: lookup.Wish,
    *,
    dry_run: bool,
) -> None:
    if layout.adopted:
        raise OverlayError("roll works in build/vllm", hint="leave VLLM_DIR out")
    if new.commit == lookup.UNKNOWN and (wish.kind == "git" or not dry_run):
        raise OverlayError(
            f"the commit of {new.tag} is unknown: {pin.repository} is out of reach",
            hint="name it (COMMIT=…) or a clone or mirror that has it (GIT_URL=…)",
        )
    if dry_run:
        return
    now = clone.state(layout, pin)
    clone.refuse_unsafe(layout, pin, now)
    stack.refuse_unexported(layout, pin, now, patches)


def _refuse_other_commit(there: Layout, new: Pin) -> None:
    """The sdist says a part of the commit that it was made from."""
    file = there.clone / source.VERSION_FILE
    said = (
        re.search(r"commit_id = 'g([0-9a-f]{7,40})'", file.read_text()) if file.is_file() else None
    )
    if said and new.commit != lookup.UNKNOWN and not new.commit.startswith(said[1]):
        raise OverlayError(
            f"{new.sdist.file} was made from {said[1]}, not from {new.commit}",
            hint=f"COMMIT names the commit of {new.tag}",
        )


def _carry(
    layout: Layout,
    pin: Pin,
    new: Pin,
    patches: tuple[Patch, ...],
    there: Layout,
    words: Mapping[str, _Words],
    *,
    dry_run: bool,
) -> Rolled:
    git = Git(there.clone)
    base = source.base(there, new)
    old, commits = stack.commits(layout, pin, patches)
    needs = mails.needs(patches)
    items = tuple(
        # Only its own tests show that the release needs it no more.
        Item(layout.patches / patch.name, commit, needs[patch.name],
             there=words[patch.name].tested.said if words[patch.name].tested.all_pass else "")
        for patch, commit in zip(patches, commits, strict=True)
    )  # fmt: skip
    rows = threeway.carry(git, items)
    tip = git.out("rev-parse", "HEAD")
    written = list(exported(git, base, tip).values())
    carried = dict(zip((row.name for row in rows if row.commit), written, strict=True))
    fates = tuple(
        _fate(patch, row, words[patch.name], carried.get(patch.name))
        for patch, row in zip(patches, rows, strict=True)
    )
    summary = _range_diff(layout, git, new, f"{old}..{(old, *commits)[-1]}", f"{base}..{tip}")
    if dry_run:
        return Rolled(fates, summary)
    if any(row.outcome == "conflict" for row in rows):
        kept.stop_at_conflict(git, items, rows)
        place = kept.park(layout, git, f"roll-{new.tag}", _again(new), onto=base)
        return Rolled(fates, summary, kept=place, steps=kept.steps(layout, Git(place), _again(new)))
    return Rolled(fates, summary, _take(layout, new, git, base, tip))


def _again(new: Pin) -> str:
    return f"make roll TAG={new.tag} SHA256={new.sdist.sha256} COMMIT={new.commit}"


def _fate(patch: Patch, row: Row, words: _Words, carried: bytes | None) -> Fate:
    all_pass = words.tested.all_pass
    details = [said for said in (words.trailers, words.tested.said) if said]
    verdict: Verdict
    if row.outcome == "already there" and not all_pass:
        verdict = "upstreamed"
        details[:0] = row.details
    elif words.trailers or all_pass or (words.history and carried is None):
        verdict = "upstreamed differently"
        if row.outcome != "already there":
            details.append(f"ours {_way(row)}")
    elif row.outcome in ("conflict", "not tried", "left out"):
        verdict = row.outcome
        details[:0] = [", ".join(row.paths), *row.details] if row.paths else row.details
    else:
        same = carried is not None and _diff(carried) == _diff(patch.raw)
        verdict = "unchanged" if same else "shifted"
        details[:0] = row.details
    if words.history:
        but = "" if carried is None else " says that it is there; the tree has not all of it"
        details.append(f"{words.history}{but}")
    stops = row.outcome in ("conflict", "not tried")
    return Fate(patch.name, verdict, tuple(details), carried is not None, stops)


def _way(row: Row) -> str:
    said = "".join(f"; {detail}" for detail in row.details)
    if row.paths:
        return f"conflicts in {', '.join(row.paths)}{said}"
    if row.outcome == "not tried":
        return f"was not tried, it {row.details[0]}"
    return f"is {'left out' if row.outcome == 'left out' else f'carried ({row.outcome})'}{said}"


def _diff(raw: bytes) -> bytes:
    """The hunks of a mail, without the ids of its blobs."""
    at = raw.find(b"\ndiff --git ")
    return re.sub(rb"^index \S+", b"index", raw[at:], flags=re.MULTILINE)


def _range_diff(layout: Layout, git: Git, new: Pin, old: str, now: str) -> tuple[str, ...]:
    """Write the range-diff to `build/reports`; returns its summary, a line a patch."""
    if not git.lines("rev-list", now):
        return ()
    whole = git.raw("range-diff", "--no-color", old, now)
    layout.reports.mkdir(parents=True, exist_ok=True)
    path = layout.reports / f"roll-{new.tag}.range-diff"
    path.write_bytes(whole)
    lines = git.lines("range-diff", "--no-color", "--no-patch", old, now)
    return (*lines, f"the whole range-diff: {layout.shown(path)}")


def _take(layout: Layout, new: Pin, git: Git, base: str, tip: str) -> bool:
    """Move work clone, patches and pin. False where nothing is left to carry: the pin stays."""
    if tip == base:
        return False
    work = Git(layout.clone)
    names = (f"refs/tags/{new.tag}", f"refs/heads/{new.branch}")
    before = {name for name in names if work.ok("show-ref", "--verify", "--quiet", name)}
    git.raw("update-ref", names[1], tip)
    options = ("--quiet", "--no-tags", "--update-shallow", "--no-write-fetch-head")
    try:
        work.raw("fetch", *options, str(git.root), *(f"{name}:{name}" for name in names))
        stack.move(layout, new, tip)
    except OverlayError as error:
        for name in set(names) - before:
            work.ok("update-ref", "-d", name)
        if not isinstance(error, GitError):
            raise
        aside = f"git -C {layout.shown(layout.clone)} branch -m {new.branch} {new.branch}-old"
        raise OverlayError(str(error), hint=error.hint or f"an earlier roll? {aside}") from error
    stack.export(layout, new, check=False)
    # Commits that a person made after a conflict get the ids that everybody else has.
    stack.apply(layout, new, mails.load(layout.patches), resolve=False)
    write_whole(layout.pin_file, pins.text(new))
    return True


def _finish(layout: Layout, pin: Pin, new: Pin, patches: tuple[Patch, ...], place: Path) -> Rolled:
    """Take over what a person made of a roll that had stopped."""
    git = Git(place)
    base = source.base(Layout(layout.root, place, adopted=False), new)
    kept.refuse_unfinished(layout, git, base, f"a roll to {new.tag}", _again(new))
    tip = git.out("rev-parse", "HEAD")
    written = exported(git, base, tip)
    now = {mails.parse(name, raw).subject: raw for name, raw in written.items()}
    fates = []
    for patch in patches:
        raw = now.get(patch.subject)
        same = raw is not None and _diff(raw) == _diff(patch.raw)
        gone: Verdict = "upstreamed differently"
        verdict: Verdict = "unchanged" if same else "shifted" if raw else gone
        fates.append(Fate(patch.name, verdict, () if raw else ("left out by hand",), bool(raw)))
    old, commits = stack.commits(layout, pin, patches)
    summary = _range_diff(layout, git, new, f"{old}..{(old, *commits)[-1]}", f"{base}..{tip}")
    moved = _take(layout, new, git, base, tip)
    aside = kept.dispose(layout, place)
    if aside:
        summary += (f"what you had there beside the result is in {layout.shown(aside)}",)
    return Rolled(tuple(fates), summary, moved)
