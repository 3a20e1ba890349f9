"""Lint: every rule lets a good patch pass and names a bad one; all findings come in one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.series import lint, mails
from tests.tools import mini
from tests.tools.product import Product

Edit = Callable[[str], str]
NAME = "0001-Core-Answer.patch"
MAIL = (
    f"From {'0' * 40} Mon Sep 17 00:00:00 2001\n"
    "From: a contributor <contributor@example.invalid>\n"
    "Date: Tue, 1 Sep 2026 12:00:00 +0200\n"
    "Subject: [Core] Answer\n"
    "\n"
    "Two is not enough.\n"
    "\n"
    "Upstream-PR: https://github.com/vllm-project/vllm/pull/1\n"
    "Upstream-Status: backport v0.29.0\n"
    "Divergence: none\n"
    "Regression-Test: tests/regression/test_mini.py\n"
    "Signed-off-by: a contributor <contributor@example.invalid>\n"
    "\n"
    "diff --git a/vllm/a.py b/vllm/a.py\n"
    f"index {'1' * 40}..{'2' * 40} 100644\n"
    "--- a/vllm/a.py\n"
    "+++ b/vllm/a.py\n"
    "@@ -1,3 +1,3 @@\n"
    " one\n"
    "-two\n"
    "+three\n"
    " four\n"
)


def swap(old: str, new: str) -> Edit:
    def edit(mail: str) -> str:
        assert old in mail
        return mail.replace(old, new)

    return edit


def found(folder: Path, files: dict[str, str | bytes]) -> list[lint.Finding]:
    """The findings over a series of these files, in a root with one regression test."""
    (folder / "tests/regression").mkdir(parents=True)
    (folder / "tests/regression/test_mini.py").touch()
    (folder / "patches").mkdir()
    for name, mail in files.items():
        data = mail.encode() if isinstance(mail, str) else mail
        (folder / "patches" / name).write_bytes(data)
    return lint.lint(folder / "patches", folder)


STATUS = "backport v0.29.0"
BODY = "Two is not enough.\n"
PASS: list[tuple[str, Edit]] = [
    ("as it is", lambda mail: mail),
    ("submitted", swap(STATUS, "submitted https://github.com/vllm-project/vllm/pull/2")),
    ("internal", swap(STATUS, "internal only our fork needs it")),
    ("two pull requests", swap("pull/1\n",
     "pull/1\nUpstream-PR: https://github.com/vllm-project/vllm/pull/2\n")),
    ("two divergences", swap("Divergence: none", "Divergence: this\nDivergence: that")),
    ("words that cut nothing", swap(BODY, "----\n\n--- \n"[:5] + "diff of Index\n > diff -u\n")),
    ("kernel tag", lambda m: swap("[Core] A", "[Kernel] A")(swap("vllm/a.py", "csrc/k.cu")(m))),
    ("build tag", lambda m: swap("[Core] A", "[Build] A")(swap("vllm/a.py", "setup.py")(m))),
    ("unchanged kernels", lambda m: swap("[Core] A", "[Kernel] A")(swap("vllm/a.py", "csrc/k.cu")(
        swap("Div", "Kernels: unchanged the wheel has it\nDiv")(m)))),
    ("blank that was there", swap("-two\n", "-two \n")),
    ("carriage returns", swap("+three\n", "+three\r\n")),
    ("new file", swap(f"index {'1' * 40}", f"new file mode 100644\nindex {'0' * 40}")),
    ("mode only", lambda m: m[: m.index("index 1")] + "old mode 100644\nnew mode 100755\n"),
    ("separator before the diff", swap("\ndiff --git", "---\n\ndiff --git")),
    ("a title underlined", lambda m: swap("+three\n", "+=======\n")(swap("a.py", "a.md")(m))),
    ("what only looks like a marker", swap("+three\n", "+<<<<<<<<<\n")),
    ("a follow-up in a later release", swap(STATUS, "backport v0.29.0, #2 v0.32.0")),
    ("a hunk inside a line", swap("+three\n", "+@@ -1 +1 @@ \u00fc\n")),
]  # fmt: skip
FAIL: list[tuple[str, Edit, str]] = [
    ("file-name", swap("[Core] Answer", "[Core] Ask"), "makes it 0001-Core-Ask.patch"),
    ("one-mail", lambda mail: mail + mail, "holds 2 mails"),
    ("one-mail", lambda mail: mail.partition("\n")[2], "holds 0 mails of git: it does not begin"),
    ("one-mail", lambda mail: "\ufeff" + mail, "it begins with a byte order mark"),
    ("one-mail", lambda mail: mail.replace("\n", "\r\n"), "its lines end in CRLF"),
    ("one-mail", lambda mail: mail[mail.index("diff --git") :], "it is a bare diff"),
    ("one-mail", swap("Mon Sep 17 00:00:00 2001", "Thu Nov  5 10:11:12 2026"),
     "another tool wrote it"),
    ("one-mail", swap(BODY, f"{BODY}From alice@example.com Thu Nov  5 10:11:12 2026\nmore\n"),
     "holds 2 mails, not one: line 7 starts another: 'From alice@example.com Thu"),
    ("whole-hunks", swap("+three\n", "+three\n+by hand\n"),
     "line 18, @@ -1,3 +1,3 @@ counts 3 lines before and 3 after, and holds 3 and 4"),
    ("whole-hunks", swap(" four\n", ""), "and holds 2 and 2"),
    ("read-as-written", swap(BODY, f"From: Bob <bob@example.invalid>\n\n{BODY}"),
     "git takes other words for Author, Email"),
    ("read-as-written", swap(BODY, f"Subject: [Core] Ask\n\n{BODY}"), "other words for Subject"),
    ("read-as-written", swap(BODY, f"Date: Tue, 8 Sep 2026 12:00:00 +0200\n\n{BODY}"),
     "other words for Date"),
    ("read-as-written", swap(BODY, f"{BODY}-- >8 --\n{BODY}"), "where scissors are on"),
    ("mended", swap("+three\n", "+<<<<<<< HEAD\n"), "vllm/a.py:2: <<<<<<< HEAD"),
    ("mended", swap("+three\n", "+=======\n"), "vllm/a.py:2: ======="),
    ("mended", swap("+three\n", "+>>>>>>> abc (x)\r\n"), "vllm/a.py:2: >>>>>>> abc (x)"),
    ("mended", lambda mail: swap("vllm/a.py", "vllm/a.py.rej")(
        swap(f"index {'1' * 40}", f"new file mode 100644\nindex {'0' * 40}")(mail)),
     "vllm/a.py.rej is a rejected hunk"),
    ("message-cut", swap(BODY, f"{BODY}---\nmore\n"), "the line '---' cuts"),
    ("message-cut", swap(BODY, f"{BODY}--- a/f\nmore\n"), "the line '--- a/f' cuts"),
    ("message-cut", swap(BODY, f"{BODY}diff -u a b\n"), "the line 'diff -u a b' cuts"),
    ("message-cut", swap(BODY, f"{BODY}Index: f\n"), "the line 'Index: f' cuts"),
    ("message-cut", swap(BODY, f"{BODY}diff --git a/x b/x\n"), "the line 'diff --git a/x b/x'"),
    ("stable-form", swap("0" * 40 + " Mon", "1" * 40 + " Mon"), "has a commit id"),
    ("stable-form", swap("1" * 40 + ".." + "2" * 40, "1111111..2222222"), "has short index lines"),
    ("stable-form", lambda mail: mail + "-- \n2.39.5\n\n", "has git's signature"),
    ("reason", swap(f"{BODY}\n", ""), "says no reason"),
    ("trailers", swap(f"Upstream-Status: {STATUS}\n", ""), "Upstream-Status is not valid: none"),
    ("trailers", swap(STATUS, "merged"), "Upstream-Status is not valid: merged"),
    ("trailers", swap(STATUS, "backport"), "not valid: backport"),
    ("trailers", swap(STATUS, "backport 0.29.0"), "not valid: backport 0.29.0"),
    ("trailers", swap(STATUS, "submitted soon"), "not valid: submitted soon"),
    ("trailers", swap(STATUS, "internal"), "not valid: internal"),
    ("trailers", swap("Upstream-PR: https://github.com/vllm-project/vllm/pull/1\n", ""),
     "names its Upstream-PR"),
    ("trailers", swap("vllm-project/vllm/pull/1", "vllm-project/vllm/issues/1"),
     "is no pull request"),
    ("trailers", swap("Divergence: none\n", ""), "Divergence is missing"),
    ("trailers", swap("Signed-off-by: a contributor <contributor@example.invalid>\n", ""),
     "Signed-off-by is missing"),
    ("trailers", swap("Divergence: none", "Divergence: none\nand a line that is no trailer"),
     "Upstream-Status is not valid: none"),
    ("regression-test", swap("Regression-Test: tests/regression/test_mini.py\n", ""),
     "Regression-Test is missing"),
    ("regression-test", swap("test_mini.py", "test_none.py"),
     "tests/regression/test_none.py does not exist"),
    ("trailing-blanks", swap("+three\n", "+three \n"), "vllm/a.py, hunk @@ -1,3 +1,3 @@"),
    ("trailing-blanks", swap("+three\n", "+\t\n"), "vllm/a.py, hunk @@ -1,3 +1,3 @@"),
    ("size", swap(" four\n", " four\n" + " x\n" * 400_000), "bytes, more than 1048576"),
    ("size", lambda mail: mail[: mail.index("--- a")] + "GIT binary patch\nliteral 0\n\n",
     "vllm/a.py is binary"),
    ("size", lambda m: m[: m.index("--- a")] + "Binary files a/x and b/x differ\n", "is binary"),
    ("kernels", swap("Div", "Kernels: unchanged the wheel has it\nDiv"), "no native file"),
    *(("kernels", swap("Div", f"{said}\nDiv"), f"REASON`: {said.partition(' ')[2]}")
      for said in ("Kernels: unchanged", "Kernels: the same", "Kernels: changed for good")),
    *(("native", swap("vllm/a.py", path), f"touches {path} without [Kernel] or [Build]")
      for path in ("csrc/k.cu", "cmake/x.cmake", "CMakeLists.txt", "setup.py",
                   "requirements/build/cuda.txt")),
    *(("generated", swap("vllm/a.py", path), f"{path} is no file of upstream's")
      for path in ("vllm/_version.py", "PKG-INFO", "setup.cfg", "vllm.egg-info/SOURCES.txt")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit"), PASS, ids=[name for name, _ in PASS])
def test_a_good_patch_passes(tmp_path: Path, name: str, edit: Edit) -> None:
    mail = edit(MAIL)
    file = f"0001-{mails.slug(mails.parse(NAME, mail.encode()).subject)}.patch"
    assert found(tmp_path, {file: mail}) == [], name


@pytest.mark.parametrize(("rule", "edit", "message"), FAIL, ids=[row[2] for row in FAIL])
def test_a_bad_patch_is_named_with_the_rule(
    tmp_path: Path, rule: str, edit: Edit, message: str
) -> None:
    findings = found(tmp_path, {NAME: edit(MAIL)})
    mine = [one for one in findings if one.rule == rule]
    assert mine, findings
    assert {one.patch for one in mine} == {NAME}
    assert any(message in one.message for one in mine), mine


def test_every_rule_has_a_sample_that_fails() -> None:
    samples = {rule.replace("-", "_") for rule, _, _ in FAIL} | {"same_hunk"}
    assert samples == {rule.__name__ for rule in lint.RULES}


def test_numbering_is_a_finding_too(tmp_path: Path) -> None:
    findings = found(tmp_path, {"0002-Core-Answer.patch": MAIL, "x": ""})
    assert [(one.rule, one.message) for one in findings] == [
        ("numbering", "number 0001 is missing"),
        ("numbering", "x is no numbered patch"),
    ]


def numbered(count: int) -> bytes:
    return "".join(f"{n}\n" for n in range(1, count + 1)).encode()


def test_two_patches_on_one_hunk_are_noted_with_both_names(tmp_path: Path) -> None:
    """Line numbers are those after the patches before: insertions above shift what is below."""
    repo = tmp_path / "repo"
    mini.git(tmp_path, "init", "--quiet", str(repo))
    text = numbered(100)
    base = mini.commit(repo, "Base", {"f": text, "g": text})
    steps = [
        ("\n20\n", "\n20\n" + "new\n" * 10),  # inserts ten lines
        ("\n28\n", "\n28 changed\n"),  # apart from it: lines 25 to 31 of the base
        ("\n50\n", "\n50 changed\n" + "more\n" * 9),  # apart from both, and shifts neither
        ("1\n", "top\n" * 7 + "1\n"),  # apart, and shifts all of the above
        ("\n51\n", "\n51 changed\n"),  # in the hunk of the third, and nowhere else
        ("\n24\n", "\n24 changed\n"),  # in the hunk of the first, and of the second
    ]
    for number, step in enumerate(steps, 1):
        text = mini.edited(text, step)
        # The same lines of another file never count.
        other = mini.edited(numbered(100), ("\n60\n", f"\n60 {number}\n")) if number == 3 else None
        files = {"f": text} | ({"g": other} if other else {})
        mini.commit(repo, f"[Core] Step {number}\n\nWhy.\n\n{mini.TRAILERS}", files)
    findings = found(tmp_path / "root", dict(mini.formatted(repo, base)))
    assert all(one.note for one in findings), findings
    assert [(one.patch[:4], one.rule, one.message) for one in findings] == [
        ("0005", "same-hunk", "f, also in 0003-Core-Step-3.patch"),
        ("0006", "same-hunk", "f, also in 0001-Core-Step-1.patch"),
        ("0006", "same-hunk", "f, also in 0002-Core-Step-2.patch"),
    ]


def test_lint_reports_everything_at_once_and_sorted(
    product: Product, patches: dict[str, bytes]
) -> None:
    first, second, third = patches
    bad = patches[second].replace(b"Divergence: none\n", b"").replace(b"+x = 2", b"+x = 2 ")
    product.write_series(
        {first: patches[first], "0004-Renamed.patch": patches[third], second: bad, "stray": b""}
    )
    done = product.run("lint")
    assert done.code == 1
    lines = done.out.split("\n")
    assert lines == [
        "fault  patches/: numbering: number 0003 is missing",
        "fault  patches/: numbering: stray is no numbered patch",
        f"fault  {second}: trailers: Divergence is missing",
        f"fault  {second}: trailing-blanks: tests/test_\u00fcml\u00e4ut.py, hunk @@ -1,2 +1,2 @@",
        f"fault  0004-Renamed.patch: file-name: the subject makes it 0004{third[4:]}",
        f"3 patches, {len(lint.RULES)} rules, 5 faults",
        "",
    ]  # fmt: skip
    assert (done.error, done.hint) == ("5 faults in the series", "see patches/README.md")


def test_lint_of_a_good_series_needs_no_clone(product: Product) -> None:
    assert product.succeed("lint") == f"3 patches, {len(lint.RULES)} rules, 0 faults\n"
    assert not product.clone.exists()
