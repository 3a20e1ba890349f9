"""A person's weeks with the tool, from the first `make apply` to a mended, longer series."""

from __future__ import annotations

from tests.tools import mini
from tests.tools.product import Product


def test_a_series_lives_through_its_whole_life(
    product: Product, second: Product, patches: dict[str, bytes]
) -> None:
    # Monday: they clone the repository and apply.
    assert "3 patches applied" in product.make("apply").out
    assert "drift   none" in product.make("status").out

    # They find a fault in the first patch, and mend it there.
    path = product.clone / "vllm/a.py"
    path.write_bytes(mini.edited(path.read_bytes(), ("return 22\n", "return 222\n")))
    assert product.make("apply").code == 2  # not over their edit
    first = product.git("rev-parse", "HEAD~2")
    product.git("commit", "--quiet", "--all", f"--fixup={first}")
    assert product.make("apply").code == 2  # nor over their commit
    product.git("rebase", "--quiet", "--interactive", "--autosquash", mini.TAG)
    assert product.make("export").code == 0

    # They add a patch; lint wants its trailers.
    mini.write(product.clone, {"docs/new.md": b"# New\n"})
    product.git("add", "docs/new.md")
    product.git("commit", "--quiet", "--message", "[Doc] Say it\n\nNobody did.")
    product.make("export")
    assert product.run("lint").code == 1
    message = f"[Doc] Say it\n\nNobody did.\n\n{mini.TRAILERS}"
    product.git("commit", "--quiet", "--amend", "--message", message)
    product.make("export")
    assert product.run("lint").code == 0

    # A colleague takes the files, and gets the same commits as they do after their own apply.
    second.write_series(product.series())
    assert "4 patches applied" in second.make("apply").out
    assert "4 patches applied" in product.make("apply").out
    assert second.git("rev-parse", "HEAD") == product.git("rev-parse", "HEAD")
    assert "4 of 4 patches unchanged" in second.succeed("export", "--check")

    # Upstream's release has the second patch: the colleague drops it.
    tag = f"git -C build/vllm rebase --quiet --interactive {mini.TAG}"
    assert second.shell(tag, GIT_SEQUENCE_EDITOR="sed -i 2d").code == 0
    assert "removed  0004-Doc-Say-it.patch" in second.make("export").out
    assert len(second.series()) == 3
    assert second.run("lint").code == 0
    assert "3 patches applied" in second.make("apply").out

    # They go back to what they had: the files are the truth, apply follows them.
    second.write_series(patches)
    assert "3 patches applied" in second.make("apply").out
    assert "3 of 3 patches unchanged" in second.succeed("export", "--check")
