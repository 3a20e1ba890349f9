"""Downloads: from the index that pip is configured for, whole and proven or not at all."""

from __future__ import annotations

import os
import pty
import subprocess
import termios
from pathlib import Path

import pytest

from tests.tools import mini
from tests.tools.product import Done, Product, finished
from tests.tools.server import Index


@pytest.fixture
def empty(product: Product) -> Product:
    """A product root that has downloaded nothing yet."""
    product.sdist.unlink()
    return product


def fails(product: Product, index: Index, verb: str = "fetch") -> Done:
    done = product.run(verb, PIP_INDEX_URL=index.url)
    assert done.code == 2, done
    assert done.hint, done
    assert not product.sdist.exists()
    assert not product.clone.exists()
    return done


def test_the_sdist_comes_from_the_index_of_pips_environment(empty: Product, index: Index) -> None:
    done = empty.run("fetch", PIP_INDEX_URL=index.url)
    assert (done.code, done.err) == (0, "")  # no progress where nobody looks
    assert empty.sdist.read_bytes() == empty.upstream.sdist
    assert index.asked == ["/simple/vllm/", f"/files/{mini.SDIST}"]


def test_the_index_of_pips_file_is_asked_and_an_extra_one_after_it(
    empty: Product, index: Index, tmp_path: Path
) -> None:
    settings = tmp_path / "pip.conf"
    other = index.url.replace("/simple", "/other")
    settings.write_text(f"[global]\nindex-url = {other}\nextra-index-url =\n    {index.url}\n")
    env = empty.env(PIP_CONFIG_FILE=str(settings))
    del env["PIP_INDEX_URL"]
    done = subprocess.run(
        empty.command("fetch"), cwd=empty.root, env=env, capture_output=True, text=True
    )
    assert finished(done).code == 0, done
    assert index.asked == ["/other/vllm/", "/simple/vllm/", f"/files/{mini.SDIST}"]


def test_settings_of_pip_that_it_cannot_read_are_told(empty: Product, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("no section\n")
    done = empty.run("fetch", PIP_CONFIG_FILE=str(tmp_path / "pip.conf"))
    assert done.code == 2
    assert "could not read pip's settings" in done.error
    assert "pip config list" in done.hint


def test_an_archive_that_is_there_needs_no_index(product: Product) -> None:
    assert "fetched" in product.succeed("fetch")  # its index is a closed port


def test_a_download_that_breaks_is_told_and_the_next_run_starts_over(
    empty: Product, index: Index
) -> None:
    index.cuts = 1
    done = fails(empty, index)
    assert f"could not download {mini.SDIST}" in done.error
    assert "build/downloads/ by hand" in done.hint
    assert "fetched" in empty.succeed("fetch", PIP_INDEX_URL=index.url)
    assert not list(empty.sdist.parent.glob("*.part"))


def test_a_part_of_a_killed_download_is_not_taken_for_the_whole(
    empty: Product, index: Index
) -> None:
    part = empty.sdist.with_name(f"{mini.SDIST}.part")
    part.write_bytes(empty.upstream.sdist[:100])
    assert "fetched" in empty.succeed("fetch", PIP_INDEX_URL=index.url)
    assert not part.exists()


def test_an_index_without_the_file_is_told(empty: Product, index: Index) -> None:
    index.projects["vllm"] = {"vllm-0.27.0.tar.gz": b""}
    done = fails(empty, index)
    assert done.error == f"the configured package index has no {mini.SDIST}"
    assert "pip config list" in done.hint
    index.projects.clear()
    assert fails(empty, index).error == done.error


def test_a_file_that_is_listed_and_gone_is_told(empty: Product, index: Index) -> None:
    index.gone.add(mini.SDIST)
    done = fails(empty, index)
    assert f"could not download {mini.SDIST}: 404" in done.error


@pytest.mark.parametrize("verb", ["fetch", "verify"])
def test_another_file_under_the_same_name_is_refused(
    empty: Product, index: Index, verb: str
) -> None:
    index.projects["vllm"][mini.SDIST] = b"other" * 10000
    done = fails(empty, index, verb)
    assert f"build/downloads/{mini.SDIST}.part is not the pinned file" in done.error
    assert mini.digest(empty.upstream.sdist) in done.error
    index.projects["vllm"][mini.SDIST] = empty.upstream.sdist
    assert empty.run(verb, PIP_INDEX_URL=index.url).code == 0


def test_an_index_out_of_reach_is_told(empty: Product) -> None:
    done = empty.run("fetch", PIP_CERT="/none/ca.pem", PIP_INDEX_URL="https://127.0.0.1:9/simple")
    assert done.code == 2
    assert f"could not download {mini.SDIST}" in done.error
    assert "the proxy and the index" in done.hint


def test_a_password_of_the_index_stays_out_of_messages(empty: Product, index: Index) -> None:
    index.gone.add(mini.SDIST)
    url = index.url.replace("//", "//user:secret@")
    done = empty.run("fetch", PIP_INDEX_URL=url)
    assert done.code == 2
    assert "secret" not in done.err
    done = empty.run("fetch", SOURCE="git", GIT_URL="file://user:secret@localhost/none")
    assert done.code == 2
    assert "secret" not in done.err


def test_progress_shows_on_a_terminal(empty: Product, index: Index) -> None:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    env = empty.env(PIP_INDEX_URL=index.url)
    running = subprocess.Popen(
        empty.command("fetch"), cwd=empty.root, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 4096):
            shown += piece
    except OSError:  # the other side has closed
        pass
    os.close(leader)
    assert running.wait() == 0  # it has closed the terminal
    assert b"100%" in shown
