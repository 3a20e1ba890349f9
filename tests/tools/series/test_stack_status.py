"""Status: pin, series, what is applied, and every kind of drift; it changes nothing."""

from __future__ import annotations

from tests.tools import mini
from tests.tools.product import Product, snapshot, tree

FIRST = "0001-Core-Answer-twice-a.py.patch"
SECOND = "0002-Bugfix-MM-Keep-carriage-returns.patch"
THIRD = "0003-Frontend-Add-a-module.patch"


def status(product: Product, **env: str) -> str:
    before = snapshot(product.clone), tree(product.patches)
    said = product.succeed("status", **env)
    assert (snapshot(product.clone), tree(product.patches)) == before
    return said


def test_status_after_apply_shows_pin_series_commits_and_tree(applied: Product) -> None:
    ids = applied.git("log", "--reverse", "--format=%H", f"{mini.TAG}..").split("\n")
    tip, of_tip = ids[-1][:12], applied.git("rev-parse", "HEAD^{tree}")[:12]
    assert status(applied) == (
        f"pin     vllm {mini.TAG} {applied.upstream.commit[:12]}\n"
        "series  3 patches\n"
        f"  {ids[0][:12]}  {FIRST}\n"
        f"  {ids[1][:12]}  {SECOND}\n"
        f"  {ids[2][:12]}  {THIRD}\n"
        f"branch  {mini.BRANCH} {tip}, tree {of_tip}\n"
        "drift   none\n"
    )


def test_status_before_fetch_says_what_to_type(product: Product) -> None:
    done = product.run("status")
    assert done.code == 2
    assert f"pin     vllm {mini.TAG}" in done.out
    assert "3 patches, not applied" in done.out
    assert (done.error, done.hint) == ("build/vllm is not there yet", "make apply")


def test_status_after_fetch_shows_patches_that_are_not_applied(product: Product) -> None:
    product.succeed("fetch")
    said = status(product)
    assert said.count("  not applied   ") == 3


def test_each_kind_of_drift_is_named(applied: Product, patches: dict[str, bytes]) -> None:
    (applied.clone / "vllm/a.py").write_text("mine\n")
    applied.git("commit", "--quiet", "--all", "--message", "Mine")
    (applied.clone / "vllm/a.py").write_text("more\n")
    (applied.clone / "docs/index.md").unlink()
    applied.git("rm", "--quiet", "--cached", "setup.py")
    (applied.clone / "\u00fcber.txt").write_text("")
    changed = patches[SECOND].replace(b"x = 2", b"x = 3")
    applied.write_series({FIRST: patches[FIRST], SECOND: changed})
    assert status(applied).partition("drift   ")[2] == (
        "edited: docs/index.md\n"
        "        edited: setup.py\n"
        "        edited: vllm/a.py\n"
        "        untracked: setup.py\n"
        "        untracked: \u00fcber.txt\n"
        "        commit without a patch file: [Bugfix][MM] Keep `carriage returns`\n"
        "        commit without a patch file: [Frontend] Add a module\n"
        "        commit without a patch file: Mine\n"
    )
    assert f"not applied   {SECOND}" in status(applied)


def test_a_head_elsewhere_and_an_open_session_are_drift(applied: Product) -> None:
    applied.git("checkout", "--quiet", "--detach", mini.TAG)
    assert f"drift   HEAD is at {applied.git('rev-parse', 'HEAD')[:12]}, not on" in status(applied)
    applied.git("switch", "--quiet", mini.BRANCH)
    bad = applied.patches / FIRST
    applied.shell(f"git -C build/vllm am '{bad}'")
    assert "drift   an unfinished git am is open: git am --continue or --abort" in status(applied)


def test_a_gap_in_the_series_is_an_error(applied: Product) -> None:
    (applied.patches / SECOND).unlink()
    done = applied.run("status")
    assert (done.code, "number 0002 is missing" in done.error) == (2, True)
    assert done.hint


def test_a_file_name_that_is_no_text_is_shown_escaped(applied: Product) -> None:
    (applied.clone / "caf\udce9").write_text("")
    assert "untracked: caf\\udce9" in status(applied)
    for encoding in ("ascii", "latin-1", "utf-8"):
        status(applied, PYTHONIOENCODING=encoding)


def test_status_of_a_checkout_without_the_branch(applied: Product) -> None:
    applied.git("checkout", "--quiet", "--detach", mini.TAG)
    applied.git("branch", "--quiet", "-D", mini.BRANCH)
    said = status(applied)
    assert f"branch  {mini.BRANCH} missing, tree -" in said
    assert said.count("  not applied   ") == 3
    assert "3 patches applied" in applied.succeed("apply")
