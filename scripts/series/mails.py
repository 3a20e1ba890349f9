"""The series as plain data: each mail parsed once into subject, body, trailers and hunks."""

from __future__ import annotations

import email
import email.policy
import re
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import OverlayError
from scripts.series import mbox
from scripts.series.mbox import CUT, HUNK

_PIN = "upstream.json"  # stands beside the patches, as pages (.md) may
_NAME = re.compile(r"([0-9]{4})-.*\.patch")
_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): (\S.*)")


@dataclass(frozen=True)
class Hunk:
    """One hunk: its `@@` line, the line numbers it covers before and after, and its lines.

    Numbers are 1-based; `old` and `new` are half-open `range`s, context lines included. Each of
    `lines` begins with ` `, `+` or `-`, or is git's remark on the end of a file.
    """

    header: str
    old: range
    new: range
    lines: tuple[bytes, ...]

    @property
    def added(self) -> tuple[bytes, ...]:
        return tuple(line[1:] for line in self.lines if line.startswith(b"+"))


@dataclass(frozen=True)
class FileDiff:
    """What one patch does to one file; `binary` where git wrote no text hunks, `new` where the
    patch creates it.
    """

    path: str
    hunks: tuple[Hunk, ...]
    binary: bool
    new: bool


@dataclass(frozen=True)
class Patch:
    """One file of the series, which should hold one mail. `raw` is the file, byte for byte."""

    name: str
    raw: bytes
    subject: str
    body: str
    trailers: tuple[tuple[str, str], ...]
    diffs: tuple[FileDiff, ...]

    @property
    def number(self) -> int:
        return int(self.name[:4])

    def values(self, trailer: str) -> list[str]:
        return [value for key, value in self.trailers if key == trailer]


_MARKER = re.compile(rb"(?:<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|) |=======$")
_HEADINGS = (".md", ".rst", ".txt")  # where a line of `=` underlines a title


def unfinished(patch: Patch) -> list[str]:
    """What a merge left that nobody mended: markers in added lines, rejected hunks, as places."""
    found = [f"{diff.path} is a rejected hunk" for diff in patch.diffs
             if diff.new and diff.path.endswith(".rej")]  # fmt: skip
    for diff in patch.diffs:
        for hunk in diff.hunks:
            at = hunk.new.start
            for line in hunk.lines:
                marker = line.startswith(b"+") and _MARKER.match(line[1:].rstrip(b"\r"))
                title = marker and marker[0] == b"=======" and diff.path.endswith(_HEADINGS)
                if marker and not title:
                    found.append(f"{diff.path}:{at}: {line[1:].decode(errors='replace').rstrip()}")
                at += line.startswith((b" ", b"+"))
    return found


def slug(subject: str) -> str:
    """The file name that `git format-patch --keep-subject` derives from `subject`, less number.

    Source: `format_sanitized_subject` and `fmt_output_subject` of git (64 bytes for the whole).
    """
    kept = re.sub(r"[^A-Za-z0-9._]+", "-", subject.strip()).strip("-")
    kept = re.sub(r"\.\.+", ".", kept).rstrip(".-")
    return kept[: 64 - len("0001-.patch") - 1]


def _message_and_diff(raw: bytes) -> tuple[bytes, bytes]:
    cut = CUT.search(raw)
    at = cut.start() if cut else len(raw)
    return raw[:at], raw[at:]


def _trailers(message: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The body without its last paragraph, and that paragraph where it is trailers only."""
    paragraphs = re.split(r"\n\s*\n", message.strip())
    matches = [_TRAILER.fullmatch(line) for line in paragraphs[-1].splitlines()]
    found = tuple((m[1], m[2]) for m in matches if m)
    if not found or len(found) < len(matches):
        return message.strip(), ()
    return "\n\n".join(paragraphs[:-1]).strip(), found


def _hunks(chunk: bytes) -> tuple[Hunk, ...]:
    heads = list(HUNK.finditer(chunk))
    ends = [head.start() for head in heads[1:]] + [len(chunk)]
    hunks = []
    for head, end in zip(heads, ends, strict=False):  # none for a mode or an empty file
        lines = chunk[head.start() : end].removesuffix(b"\n").split(b"\n")
        old, old_length, new, new_length = (int(n or 1) for n in head.groups())
        spans = range(old, old + old_length), range(new, new + new_length)
        hunks.append(Hunk(lines[0].decode(errors="replace"), *spans, tuple(lines[1:])))
    return tuple(hunks)


def _file_diffs(diff: bytes) -> tuple[FileDiff, ...]:
    chunks = re.split(rb"^diff --git ", diff, flags=re.MULTILINE)[1:]
    found = []
    for chunk in chunks:
        # `a/X b/Y`: Y is the name after the patch, and equal to X unless the file is renamed.
        path = chunk.split(b"\n", 1)[0].rpartition(b" b/")[2].decode(errors="replace")
        binary = bool(re.search(rb"^(?:GIT binary patch|Binary files )", chunk, re.MULTILINE))
        new = chunk.split(b"\n", 2)[1].startswith(b"new file mode")
        found.append(FileDiff(path, () if binary else _hunks(chunk), binary, new))
    return tuple(found)


def parse(name: str, raw: bytes) -> Patch:
    """One patch file. The mail is only read, never written again: `raw` stays the truth."""
    head, diff = _message_and_diff(raw)
    mail = email.message_from_bytes(head, policy=email.policy.default)
    payload = mail.get_payload(decode=True)
    text = payload.decode(errors="replace") if isinstance(payload, bytes) else ""
    # A title of two lines is one encoded word with a line end, and git names the file by the first.
    subject = str(mail["Subject"] or "").partition("\n")[0].strip()
    body, trailers = _trailers(text)
    return Patch(name, raw, subject, body, trailers, _file_diffs(diff))


def overlaps(patches: tuple[Patch, ...]) -> list[tuple[Patch, str, Patch]]:
    """Later patch, path and earlier patch wherever the later one's hunks touch what the earlier
    one's left, context included, or one of the two makes the file.
    """
    found = []
    spans: dict[str, list[tuple[range, Patch]]] = {}
    made: dict[str, list[Patch]] = {}
    for patch in patches:
        for diff in patch.diffs:
            earlier = spans.get(diff.path, [])
            hit = {by.name: by for by in made.get(diff.path, [])}
            if diff.new:  # in the place of one that an earlier patch took away
                hit |= {by.name: by for _, by in earlier}
            hit |= {by.name: by for span, by in earlier for h in diff.hunks if _meet(span, h.old)}
            found += [(patch, diff.path, hit[name]) for name in sorted(hit)]
            moved = [(_shifted(span, diff), by) for span, by in earlier]
            spans[diff.path] = moved + [(hunk.new, patch) for hunk in diff.hunks]
            if diff.new:
                made.setdefault(diff.path, []).append(patch)
    return found


def needs(patches: tuple[Patch, ...]) -> dict[str, tuple[str, ...]]:
    """Name → the earlier patches that one stands on, theirs included, by what their hunks touch."""
    found: dict[str, set[str]] = {patch.name: set() for patch in patches}
    for later, _, earlier in overlaps(patches):
        found[later.name] |= {earlier.name} | found[earlier.name]
    return {name: tuple(sorted(needed)) for name, needed in found.items()}


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _shifted(span: range, diff: FileDiff) -> range:
    """`span`, in the line numbers that hold after `diff`."""
    by = sum(len(h.new) - len(h.old) for h in diff.hunks if h.old.stop <= span.start)
    return range(span.start + by, span.stop + by)


def names(folder: Path) -> list[str]:
    """The numbered patch files in `folder`, in order."""
    return sorted(p.name for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_file())


def numbering(found: list[str]) -> list[str]:
    """What is wrong with the numbers of `found`: gaps and duplicates, as sentences."""
    faults = []
    by_number: dict[int, list[str]] = {}
    for name in found:
        by_number.setdefault(int(name[:4]), []).append(name)
    for number, same in sorted(by_number.items()):
        if len(same) > 1:
            faults.append(f"number {number:04d} is used twice: {', '.join(same)}")
    expected = set(range(1, max(by_number, default=0) + 1))
    faults += [f"number {n:04d} is missing" for n in sorted(expected - set(by_number))]
    if 0 in by_number:
        faults.append("numbers start at 0001")
    return faults


def faults_of(folder: Path) -> list[str]:
    """What makes `folder` no series, as sentences: gaps, duplicates and stray files."""
    if not folder.is_dir():
        raise OverlayError(f"{folder} is missing", hint="git checkout patches/")
    found = names(folder)
    beside = {path.name for path in folder.iterdir() if path.suffix != ".md"}
    strays = sorted(beside - set(found) - {_PIN})
    return numbering(found) + [f"{name} is no numbered patch" for name in strays]


def read(folder: Path) -> tuple[Patch, ...]:
    """Every numbered patch in order, whatever the numbers."""
    return tuple(parse(name, (folder / name).read_bytes()) for name in names(folder))


def load(folder: Path) -> tuple[Patch, ...]:
    """Every patch in order. Gaps, duplicates, stray files and files that hold not one whole mail
    are an error that names them all.
    """
    found, patches = faults_of(folder), read(folder)
    broken = []
    for patch in patches:
        said = mbox.fault_of_form(patch.raw)
        broken += [
            f"{patch.name} {one}" for one in ([said] if said else mbox.miscounted(patch.raw))
        ]
    hints = ["rename or remove the files named; `make export` numbers them anew"] * bool(found)
    hints += [f"git checkout {folder.name}/ brings them back; what they say is edited as commits of"
              " build/vllm, see `Changing the series` in README.md"] * bool(broken)  # fmt: skip
    if found or broken:
        said = "; ".join(found + broken)
        raise OverlayError(f"{folder.name}/ is not a series: {said}", hint="; ".join(hints))
    return patches


def chosen(patches: tuple[Patch, ...], numbers: str) -> set[str]:
    """The names of the patches that `1,3-4` names; all where it is empty."""
    if not numbers.strip():
        return {patch.name for patch in patches}
    by_number = {patch.number: patch.name for patch in patches}
    wanted: set[int] = set()
    for word in re.split(r"[\s,]+", numbers.strip(" ,")):
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        found = range(int(span[1]), int(span[2] or span[1]) + 1) if span else range(0)
        if not found or not set(found) <= set(by_number):
            raise OverlayError(
                f"PATCHES={numbers}: {word!r} is no part of the series, 1 to {len(patches)}",
                hint="PATCHES=1,3-4 takes the first, the third and the fourth",
            )
        wanted |= set(found)
    return {by_number[number] for number in wanted}
