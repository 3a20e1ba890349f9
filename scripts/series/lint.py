"""Rules over a series. Each rule is a function from series to findings; all of them always run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.release import source
from scripts.series import mails, mbox, reading
from scripts.series.mails import Patch

# Changes here need the kernels, or the build itself, made anew.
NATIVE = ("csrc/", "cmake/", "rust/", "requirements/build/", "CMakeLists.txt", "setup.py")
_NATIVE_TAGS = ("[Kernel]", "[Build]")
UNCHANGED = re.compile(r"unchanged \S.*")
"""The trailer `Kernels` of a patch with which the pinned wheel's kernels stay what they are."""
_HUGE = 1 << 20  # bytes of one patch file
_STATUS = re.compile(
    r"backport v\d+\.\d+\.\d+(?:, #\d+ v\d+\.\d+\.\d+)*|submitted https://\S+|internal \S.*"
)
_PULL = re.compile(r"https://github\.com/vllm-project/vllm/pull/\d+")
# What may stand between a message and its first hunk, in git's own words.
_DIFF_START = re.compile(
    rb"(?:---\n\n?)?diff --git a/.+ b/.+\n(?:index|old mode|new file|deleted file|similarity) "
)


@dataclass(frozen=True, order=True)
class Finding:
    """One thing a rule saw in one patch. A `note` is worth knowing but fails no check."""

    patch: str
    rule: str
    message: str
    note: bool = False


Rule = Callable[[tuple[Patch, ...], Path], Iterator[Finding]]


def file_name(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """The file is named by number and subject, as `git format-patch` names it."""
    for patch in patches:
        wanted = f"{patch.number:04d}-{mails.slug(patch.subject)}.patch"
        if patch.name != wanted:
            yield Finding(patch.name, "file-name", f"the subject makes it {wanted}")


def one_mail(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """One mail a file: `git am` makes a commit of each mail it finds."""
    for patch in patches:
        said = mbox.fault_of_form(patch.raw)
        if said:
            yield Finding(patch.name, "one-mail", said)


def whole_hunks(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """Each hunk holds the lines that it counts: git calls any other patch corrupt."""
    for patch in patches:
        for said in mbox.miscounted(patch.raw):
            yield Finding(patch.name, "whole-hunks", said)


def read_as_written(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """git reads author, date, title, message and diff as they stand there."""
    for patch in patches:
        if not mbox.fault_of_form(patch.raw):
            for said in reading.read_otherwise(patch):
                yield Finding(patch.name, "read-as-written", said)


def mended(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """No conflict markers in added lines, no rejected hunks: somebody was not done."""
    for patch in patches:
        for place in mails.unfinished(patch):
            yield Finding(patch.name, "mended", place)


def message_cut(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """No line of the message is one at which `git am` cuts: what follows would be lost."""
    for patch in patches:
        cut = mbox.CUT.search(patch.raw)
        if cut and not _DIFF_START.match(patch.raw, cut.start()):
            line = patch.raw[cut.start() :].split(b"\n", 1)[0].decode(errors="replace")
            yield Finding(patch.name, "message-cut", f"the line {line!r} cuts the message")


def stable_form(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """Zero commit id, full index lines, no signature: nothing that changes by itself."""
    for patch in patches:
        for commit in mbox.FROM.findall(patch.raw):
            if commit.strip(b"0"):
                yield Finding(patch.name, "stable-form", "has a commit id; make export")
        if re.search(rb"^index [0-9a-f]{1,39}\.\.", patch.raw, re.MULTILINE):
            yield Finding(patch.name, "stable-form", "has short index lines; make export")
        if re.search(rb"^-- \n\S+\n*\Z", patch.raw, re.MULTILINE):
            yield Finding(patch.name, "stable-form", "has git's signature; make export")


def reason(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """A reason stands before the trailers."""
    for patch in patches:
        if not patch.body:
            yield Finding(patch.name, "reason", "the message says no reason before its trailers")


def trailers(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """The trailers are there, and each has the form that patches/README.md gives."""
    for patch in patches:
        status = patch.values("Upstream-Status")
        if len(status) != 1 or not _STATUS.fullmatch(status[0]):
            said = ", ".join(status) or "none"
            yield Finding(patch.name, "trailers", f"Upstream-Status is not valid: {said}")
        elif status[0].startswith("backport") and not patch.values("Upstream-PR"):
            yield Finding(patch.name, "trailers", "a backport names its Upstream-PR")
        for url in patch.values("Upstream-PR"):
            if not _PULL.fullmatch(url):
                yield Finding(patch.name, "trailers", f"Upstream-PR is no pull request: {url}")
        for name in ("Divergence", "Signed-off-by"):
            if not patch.values(name):
                yield Finding(patch.name, "trailers", f"{name} is missing")


def regression_test(patches: tuple[Patch, ...], root: Path) -> Iterator[Finding]:
    """A regression test is named, and is there."""
    for patch in patches:
        named = patch.values("Regression-Test")
        if not named:
            yield Finding(patch.name, "regression-test", "Regression-Test is missing")
        for path in named:
            if not (root / path).is_file():
                yield Finding(patch.name, "regression-test", f"{path} does not exist")


def trailing_blanks(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """No added line ends in a blank."""
    for patch in patches:
        for diff in patch.diffs:
            for hunk in diff.hunks:
                if any(re.search(rb"[ \t]$", line) for line in hunk.added):
                    where = f"{diff.path}, hunk {hunk.header}"
                    yield Finding(patch.name, "trailing-blanks", where)


def size(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """No binary hunks and no huge files: nobody can review them."""
    for patch in patches:
        if len(patch.raw) > _HUGE:
            yield Finding(patch.name, "size", f"{len(patch.raw)} bytes, more than {_HUGE}")
        for diff in patch.diffs:
            if diff.binary:
                yield Finding(patch.name, "size", f"{diff.path} is binary")


def native(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """A patch that forces a source build says so in its title."""
    for patch in patches:
        paths = [diff.path for diff in patch.diffs if diff.path.startswith(NATIVE)]
        if paths and not any(tag in patch.subject for tag in _NATIVE_TAGS):
            tags = " or ".join(_NATIVE_TAGS)
            yield Finding(patch.name, "native", f"touches {paths[0]} without {tags} in its title")


def kernels(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """A patch that leaves the wheel's kernels as they are says why; no other patch says so."""
    for patch in patches:
        said = patch.values("Kernels")
        native = any(diff.path.startswith(NATIVE) for diff in patch.diffs)
        if said and not (len(said) == 1 and UNCHANGED.fullmatch(said[0])):
            shown = ", ".join(said)
            yield Finding(patch.name, "kernels", f"not `Kernels: unchanged REASON`: {shown}")
        elif said and not native:
            yield Finding(patch.name, "kernels", "Kernels is there, but no native file is touched")


def generated(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """No file that only the sdist has: the git source would refuse the patch."""
    for patch in patches:
        for diff in patch.diffs:
            if source.is_generated(diff.path):
                yield Finding(patch.name, "generated", f"{diff.path} is no file of upstream's")


def same_hunk(patches: tuple[Patch, ...], _root: Path) -> Iterator[Finding]:
    """Two patches on one hunk depend on each other's order; worth knowing before a `pick`."""
    for later, path, earlier in mails.overlaps(patches):
        yield Finding(later.name, "same-hunk", f"{path}, also in {earlier.name}", note=True)


RULES: tuple[Rule, ...] = (
    file_name, one_mail, whole_hunks, message_cut, read_as_written, stable_form, reason, trailers,
    regression_test, mended, trailing_blanks, size, native, kernels, generated, same_hunk,
)  # fmt: skip


def lint(folder: Path, root: Path) -> list[Finding]:
    """Every finding of every rule over the series in `folder`, sorted."""
    found = [Finding("", "numbering", fault) for fault in mails.faults_of(folder)]
    patches = mails.read(folder)
    for rule in RULES:
        found += rule(patches, root)
    return sorted(found)
