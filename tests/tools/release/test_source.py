"""The pinned source: two ways to the same tree, and no way for another one."""

from __future__ import annotations

import gzip
import random
import shutil
import tarfile
import zlib
from pathlib import Path

import pytest

from tests.tools import mini
from tests.tools.product import Done, Product, tree


def refuses(product: Product, *args: str, **env: str) -> Done:
    """The command cannot run (exit 2), says what to do, and leaves no trace of a clone."""
    before = tree(product.root)
    done = product.run(*args, **env)
    assert done.code == 2, done
    assert done.hint, done
    after = tree(product.root)
    after.pop("build/.lock", None)
    assert after == before
    return done


def fetched(product: Product, **env: str) -> dict[str, str]:
    product.succeed("fetch", **env)
    return tree(product.clone)


def test_fetch_from_the_sdist_gives_upstreams_tree_as_one_commit(product: Product) -> None:
    said = product.succeed("fetch")
    assert said == f"vllm {mini.TAG} fetched into build/vllm\n"
    assert product.git("rev-list", "--count", "HEAD") == "1"
    repo = product.upstream.repo
    ours = product.git("ls-tree", "-r", "HEAD")
    assert ours == product.git("ls-tree", "-r", mini.TAG, repo=repo)  # modes, links, ignored ones
    assert "100755 " in ours
    assert "120000 " in ours
    assert "tests/kept.so" in ours
    assert (product.clone / "vllm/_version.py").is_file()
    assert product.git("status", "--porcelain") == ""
    assert not (product.clone / "vllm.egg-info").exists()
    assert product.git("describe", "--tags", "HEAD") == mini.TAG
    assert product.git("branch", "--show-current") == mini.BRANCH


def test_fetch_again_does_nothing_and_says_so(product: Product) -> None:
    before = fetched(product)
    assert product.succeed("fetch") == f"vllm {mini.TAG} already in build/vllm\n"
    assert tree(product.clone) == before


def test_fetch_gives_the_same_base_commit_in_two_roots(product: Product, second: Product) -> None:
    product.succeed("fetch", TZ="Pacific/Auckland")
    tag = f"{mini.TAG}^{{commit}}"
    assert product.git("rev-parse", tag) == second.git("rev-parse", tag)


@pytest.mark.parametrize("form", ["path", "url", "relative", "home", "default"])
def test_fetch_from_git_is_shallow_and_gives_the_same_files(product: Product, form: str) -> None:
    repo = product.upstream.repo
    mirror = product.home / "mirror"
    mirror.symlink_to(repo)
    urls = {"path": str(repo), "url": repo.as_uri(), "relative": "../home/mirror",
            "home": "~/mirror", "default": ""}  # fmt: skip
    product.succeed("fetch", SOURCE="git", GIT_URL=urls[form])
    assert product.git("rev-parse", "HEAD") == product.upstream.commit
    assert product.git("rev-list", "--count", "HEAD") == "1"
    assert product.git("rev-parse", mini.TAG) == product.upstream.commit
    by_git = tree(product.clone)
    shutil.rmtree(product.clone)
    by_sdist = fetched(product)
    assert by_sdist.pop("vllm/_version.py")
    assert by_git == by_sdist


def test_the_series_gives_the_same_tree_on_either_source(
    product: Product, applied: Product
) -> None:
    product_git = product.succeed("apply", SOURCE="git", GIT_URL=str(product.upstream.repo))
    assert applied.git("rev-parse", "HEAD^{tree}")[:12] in product_git


def test_asking_for_git_where_the_clone_came_from_the_sdist_is_told(applied: Product) -> None:
    before = applied.git("rev-parse", "HEAD")
    done = applied.run("apply", SOURCE="git", GIT_URL=str(applied.upstream.repo))
    assert done.code == 2
    assert applied.git("rev-parse", "HEAD") == before
    assert done.error == "build/vllm was made from the sdist, not from git"
    assert done.hint == "move it away: mv build/vllm build/vllm.sdist"


def test_a_mirror_whose_tag_points_elsewhere_is_refused(product: Product, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mini.git(tmp_path, "init", "--quiet", str(mirror))
    alien = mini.commit(mirror, "Alien", {"vllm/__init__.py": b""})
    mini.git(mirror, "tag", mini.TAG)
    done = refuses(product, "fetch", SOURCE="git", GIT_URL=str(mirror))
    assert done.error == (
        f"{mirror} has {mini.TAG} at {alien}, the pin says {product.upstream.commit}"
    )
    assert "faithful mirror" in done.hint


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_repository_that_is_not_there_is_told(
    product: Product, tmp_path: Path, scheme: str
) -> None:
    url = f"{scheme}{tmp_path}/none"
    done = refuses(product, "apply", SOURCE="git", GIT_URL=url)
    assert f"could not fetch {product.upstream.commit} from {url}" in done.error
    assert "make apply SOURCE=git GIT_URL=" in done.hint


def test_a_repository_without_the_pin_is_told(product: Product, tmp_path: Path) -> None:
    mini.git(tmp_path, "init", "--quiet", "other")
    mini.commit(tmp_path / "other", "Other", {"f": b""})
    done = refuses(product, "fetch", SOURCE="git", GIT_URL=str(tmp_path / "other"))
    assert "could not fetch" in done.error


@pytest.mark.parametrize(
    ("path", "code"),
    [("vllm/a.py", 1), ("tests/kept.so", 1), ("csrc/k.cu", 1), ("setup.py", 1),
     ("docs/index.md", 0)],
)  # fmt: skip
def test_verify_lists_every_difference_and_fails_where_it_matters(
    product: Product, tmp_path: Path, path: str, code: int
) -> None:
    """The release is tagged again with one other file; the sdist stays."""
    mirror = tmp_path / "mirror"
    mini.git(tmp_path, "clone", "--quiet", str(product.upstream.repo), str(mirror))
    mini.git(mirror, "checkout", "--quiet", mini.TAG)
    other = mini.commit(mirror, "Other", {path: b"other\n", "docs/added.md": b""})
    product.edit_pin(commit=other)
    product.succeed("fetch", SOURCE="git", GIT_URL=str(mirror))
    done = product.run("verify", GIT_URL=mirror.as_uri())
    assert done.code == code, done
    assert f"  {path}: differs\n" in done.out
    assert "  docs/added.md: only in build/vllm\n" in done.out
    assert f"  docs/added.md: only in {mirror.as_uri()}\n" in done.out
    if code:
        assert done.error == "the sources do not agree where they must"
        assert done.hint


def test_verify_compares_modes_too(product: Product, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mini.git(tmp_path, "clone", "--quiet", str(product.upstream.repo), str(mirror))
    mini.git(mirror, "checkout", "--quiet", mini.TAG)
    mini.git(mirror, "update-index", "--chmod=+x", "vllm/a.py")
    mini.git(mirror, "update-index", "--chmod=-x", mini.EXECUTABLE)
    product.edit_pin(commit=mini.commit(mirror, "Modes", {}))
    done = product.run("verify", GIT_URL=mirror.as_uri())
    assert done.code == 1, done
    url = mirror.as_uri()
    assert f"  vllm/a.py: mode 100644 in {mini.SDIST}, 100755 in {url}\n" in done.out
    assert f"  {mini.EXECUTABLE}: mode 100755 in {mini.SDIST}, 100644 in {url}\n" in done.out


def test_verify_compares_all_that_is_at_hand(product: Product, applied: Product) -> None:
    said = product.succeed("verify")
    assert "as pinned\nnothing to compare it with" in said
    assert not product.clone.exists()
    url = product.upstream.repo.as_uri()
    said = applied.succeed("verify", GIT_URL=url)
    files = len(mini.FILES) + 2
    assert said == (
        f"{mini.SDIST}: sha256 {mini.digest(applied.upstream.sdist)} as pinned\n"
        f"{mini.SDIST} and build/vllm: {files} files are equal\n"
        f"{mini.SDIST} and {url}: {files} files are equal\n"
    )


@pytest.mark.parametrize("verb", ["fetch", "apply", "verify"])
def test_a_wrong_hash_is_refused(product: Product, verb: str) -> None:
    data = bytearray(product.upstream.sdist)
    data[100] ^= 1
    product.sdist.write_bytes(data)
    done = refuses(product, verb)
    assert f"build/downloads/{mini.SDIST} is not the pinned file" in done.error
    assert mini.digest(bytes(data)) in done.error
    assert mini.digest(product.upstream.sdist) in done.error
    assert f"rm build/downloads/{mini.SDIST}" in done.hint


def test_a_truncated_archive_is_told_from_another_file(product: Product) -> None:
    product.sdist.write_bytes(product.upstream.sdist[:-100])
    assert "is truncated: sha256" in refuses(product, "fetch").error


def _corrupt(repo: Path) -> bytes:
    """An sdist that breaks in the middle of a large file."""
    text = random.Random(0).randbytes(100_000).hex().encode()
    tar = gzip.decompress(mini.sdist(repo, [(mini.member(f"{mini.TOP}/docs/large"), text)]))
    packer = zlib.compressobj(wbits=31)
    whole = packer.compress(tar[:-100_000]) + packer.flush(zlib.Z_FULL_FLUSH)
    return whole + b"\xff" * 1000  # no block of that type exists


@pytest.mark.parametrize("fault", ["truncated", "corrupt", "text", "empty", "tar", "crc"])
@pytest.mark.parametrize("verb", ["fetch", "verify"])
def test_what_is_no_archive_is_told_even_where_the_hash_fits(
    product: Product, fault: str, verb: str
) -> None:
    whole = product.upstream.sdist
    data = {
        "truncated": whole[: len(whole) // 2],
        "corrupt": _corrupt(product.upstream.repo),
        "text": b"<html>not found</html>",
        "empty": b"",
        "tar": b"\0" * 10240,
        "crc": whole[:-8] + bytes(8),
    }[fault]
    product.pin_sdist(data)
    done = product.run(verb) if fault == "crc" else refuses(product, verb)
    if done.code:  # a tar ends before the checksum of its gzip; the sha256 has covered it
        assert f"{mini.SDIST} is not a readable archive" in done.error
        assert "rm " in done.hint


OUTSIDE = f"{mini.TOP}/vllm"


@pytest.mark.parametrize(
    "info",
    [
        mini.member("../evil.py"),
        mini.member(f"{mini.TOP}/../../evil.py"),
        mini.member("/evil.py"),
        mini.member("other-folder/evil.py"),
        mini.member("evil.py"),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.SYMTYPE, "../../../evil"),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.SYMTYPE, "/etc/passwd"),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.LNKTYPE, f"{OUTSIDE}/a.py"),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.LNKTYPE, "/etc/passwd"),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.CHRTYPE),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.BLKTYPE),
        mini.member(f"{OUTSIDE}/evil.py", tarfile.FIFOTYPE),
        mini.member(f"{mini.TOP}/.git/hooks/evil.py"),
        mini.member(f"{OUTSIDE}/.GIT/evil.py"),
    ],
    ids=lambda info: f"{info.name}-{info.type.decode()}-{info.linkname}",
)
@pytest.mark.parametrize("verb", ["fetch", "verify"])
def test_a_hostile_member_is_refused_even_where_the_hash_fits(
    product: Product, tmp_path: Path, info: tarfile.TarInfo, verb: str
) -> None:
    product.pin_sdist(mini.sdist(product.upstream.repo, [(info, b"evil\n")]))
    done = refuses(product, verb)
    assert "is hostile: member " in done.error
    assert repr(info.name) in done.error
    assert "do not use this file" in done.hint
    assert not [path for path in tmp_path.rglob("evil*") if path.exists()]
    assert not Path("/evil.py").exists()


def test_a_killed_fetch_leaves_nothing_that_the_next_one_trips_over(product: Product) -> None:
    left = product.root / "build" / ".scratch-killed" / "vllm"
    mini.write(left, mini.FILES)
    product.succeed("fetch")
    assert not left.parent.exists()
