"""The series as data: each mail is read as git reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.core.errors import OverlayError
from scripts.series import mails, mbox
from tests.tools import mini

SUBJECTS = [
    "plain",
    "[Bugfix][MM] Two tags",
    "  blanks   inside  ",
    "tab\tinside",
    "dots...and..more.",
    ".leading dot",
    "-leading dash",
    "trailing dash -",
    "trailing.-.",
    "a.-b",
    "a-.b",
    "under_score",
    "slash/and\\backslash",
    "#123: (why?) <b> 'q' \"d\" & |",
    "caf\u00e9 \u00fcber",
    "\u65e5\u672c\u8a9e",
    "\u65e5\u672c\u8a9e and ascii",
    "a\u2028b",
    "x" * 51,
    "x" * 52,
    "x" * 53,
    "x" * 51 + "-y",
    "x" * 51 + ".y",
    "word " * 20,
    "caf\u00e9 " * 20,
    "[PATCH 1/2] old habit",
    "Re: answer",
    "=?UTF-8?q?not=20encoded?=",
    "two-line subject that goes\non here",
    "1",
    "...",
    "CAPS and 123.456",
]


def test_slug_is_what_git_names_the_file(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    mini.git(tmp_path, "init", "--quiet", str(repo))
    base = mini.commit(repo, "Base", {"f": b""})
    for number, subject in enumerate(SUBJECTS):
        mini.commit(repo, f"{subject}\n\nWhy.", {"f": str(number).encode()})
    for name, raw in mini.formatted(repo, base).items():
        patch = mails.parse(name, raw)
        assert name == f"{patch.number:04d}-{mails.slug(patch.subject)}.patch"


def test_a_mail_is_read_into_subject_body_trailers_and_hunks(patches: dict[str, bytes]) -> None:
    name = "0002-Bugfix-MM-Keep-carriage-returns.patch"
    patch = mails.parse(name, patches[name])
    assert (patch.number, patch.raw) == (2, patches[name])
    assert patch.subject == "[Bugfix][MM] Keep `carriage returns`"
    assert patch.body == "Die Gr\u00f6\u00dfe z\u00e4hlt."
    assert patch.values("Upstream-Status") == ["backport v0.30.0"]
    assert patch.values("Signed-off-by") == ["a contrib\u00fctor <contributor@example.invalid>"]
    assert patch.values("None-Such") == []
    assert [diff.path for diff in patch.diffs] == [
        "tests/test_\u00fcml\u00e4ut.py", "vllm/a.py", "vllm/crlf.py",
    ]  # fmt: skip
    (hunk,) = patch.diffs[1].hunks
    assert (hunk.old, hunk.new) == (range(80, 87), range(80, 87))
    assert hunk.added == (b"    return 280",)
    assert not any(diff.new or diff.binary for diff in patch.diffs)


def test_a_created_file_is_known_as_new(patches: dict[str, bytes]) -> None:
    name = "0003-Frontend-Add-a-module.patch"
    diffs = {diff.path: diff for diff in mails.parse(name, patches[name]).diffs}
    assert {path for path, diff in diffs.items() if diff.new} == {
        "vllm/moved.py",
        "vllm/new.py",
        "vllm/sub/__init__.py",
    }
    assert sorted(set(diffs) - {"vllm/b.py"}) == [
        "vllm/moved.py",
        "vllm/new.py",
        "vllm/old.py",
        "vllm/sub/__init__.py",
    ]
    assert diffs["vllm/sub/__init__.py"].hunks == ()
    assert [h.old for h in diffs["vllm/old.py"].hunks] == [range(1, 21)]


def test_what_only_looks_like_a_hunk_is_none() -> None:
    raw = (
        b"Subject: x\n\nWhy.\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n"
        b"@@ -1 +1,2 @@ def f():\n-x\n+@@ -5,3 +5,9 @@\n+y @@ -1 +1 @@\n"
    )
    (hunk,) = mails.parse("0001-x.patch", raw).diffs[0].hunks
    assert (hunk.header, hunk.old, hunk.new) == ("@@ -1 +1,2 @@ def f():", range(1, 2), range(1, 3))
    assert len(hunk.added) == 2


@pytest.mark.parametrize("message", ["", "\n", "Why."])
def test_a_message_without_trailers_has_none(message: str) -> None:
    raw = f"Subject: x\n\n{message}\n\ndiff --git a/f b/f\nold mode 100644\n".encode()
    patch = mails.parse("0001-x.patch", raw)
    assert patch.trailers == ()
    assert patch.body == message.strip()


def test_git_cuts_a_message_where_we_say_it_does(tmp_path: Path) -> None:
    """Each line stands in a message; git's own mailinfo says whether the rest was lost."""
    lines = ["---", "--- ", "---\t", "---  x", "--- x", "---x", "----", "-- ", "diff -r a b",
             "diff", "diff --git a/f b/f", "Index: f", "Index:", "index 1..2", " ---", "> diff -u",
             "***", "@@ -1 +1 @@", "From here", "Subject: x"]  # fmt: skip
    for line in lines:
        mail = f"From: a <a@example.invalid>\nSubject: x\n\nWhy.\n\n{line}\nkept\n"
        path = tmp_path / "mail"
        path.write_text(mail)
        found = f"git -C '{tmp_path}' mailinfo -k msg patch < mail"
        mini.git(tmp_path, "init", "--quiet")
        mini.git(tmp_path, "-c", f"alias.info=!{found}", "info")
        cut = "kept" not in (tmp_path / "msg").read_text()
        assert bool(mbox.CUT.search(mail.encode())) == cut, line


@pytest.mark.parametrize(
    ("names", "faults"),
    [
        ([], []),
        (["0001-a.patch", "0002-b.patch"], []),
        (["0001-.patch"], []),
        (["0002-b.patch"], ["number 0001 is missing"]),
        (["0000-cover-letter.patch", "0001-a.patch"], ["numbers start at 0001"]),
        (["0001-a.patch", "0001-b.patch"],
         ["number 0001 is used twice: 0001-a.patch, 0001-b.patch"]),
        (["0001-a.patch", "0004-b.patch"], ["number 0002 is missing", "number 0003 is missing"]),
        (["1-a.patch"], ["1-a.patch is no numbered patch"]),
        (["0001-a.patch.orig", "0001-a.diff", "notes"],
         ["0001-a.diff is no numbered patch", "0001-a.patch.orig is no numbered patch",
          "notes is no numbered patch"]),
        (["README.md", "upstream.json"], []),
    ],
)  # fmt: skip
def test_a_folder_that_is_no_series_says_all_that_is_wrong(
    tmp_path: Path, names: list[str], faults: list[str]
) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert mails.faults_of(tmp_path) == faults


def test_a_folder_with_the_name_of_a_patch_is_a_stray(tmp_path: Path) -> None:
    (tmp_path / "0001-a.patch").mkdir()
    assert mails.faults_of(tmp_path) == ["0001-a.patch is no numbered patch"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OverlayError, match="none is missing") as caught:
        mails.load(tmp_path / "none")
    assert caught.value.hint == "git checkout patches/"


def made(folder: Path, *steps: tuple[str, dict[str, bytes]]) -> tuple[mails.Patch, ...]:
    """A series of these steps (title, files) on a tree with a file of 40 lines."""
    repo = folder / "repo"
    mini.git(folder, "init", "--quiet", str(repo))
    base = mini.commit(repo, "Base", {"f": LINES})
    for title, files in steps:
        mini.commit(repo, f"{title}\n\nWhy.", files)
    files = mini.formatted(repo, base)
    return tuple(mails.parse(name, raw) for name, raw in files.items())


LINES = "".join(f"{n}\n" for n in range(1, 41)).encode()


def test_a_patch_needs_those_whose_lines_it_touches_and_what_they_need(tmp_path: Path) -> None:
    one = mini.edited(LINES, ("\n10\n", "\nten\n"))
    two = mini.edited(one, ("\n30\n", "\nthirty\n"))
    three = mini.edited(two, ("ten\n", "TEN\n"))
    four = mini.edited(three, ("TEN\n", "Ten\n"), ("\n5\n", "\nfive\n"))
    patches = made(tmp_path, *((f"Step {n}", {"f": text}) for n, text in
                               enumerate((one, two, three, four))))  # fmt: skip
    numbers = {patch.name: patch.number for patch in patches}
    found = {numbers[n]: {numbers[i] for i in needed} for n, needed in mails.needs(patches).items()}
    assert found == {1: set(), 2: set(), 3: {1}, 4: {1, 3}}


def test_a_patch_needs_the_one_that_makes_its_file_even_an_empty_one(tmp_path: Path) -> None:
    first = {"new": b"", "other": b"x\n"}
    steps = [("Make", first), ("Apart", {"f": LINES + b"y\n"}), ("Fill", {"new": b"x\n"})]
    patches = made(tmp_path, *steps)
    make, _, fill = (patch.name for patch in patches)
    assert mails.needs(patches)[fill] == (make,)
    found = [(later.name, path, earlier.name) for later, path, earlier in mails.overlaps(patches)]
    assert found == [(fill, "new", make)]
