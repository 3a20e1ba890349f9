"""What the machine may lack: disk, rights, a Python with venv. Each is told, nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import mini
from tests.tools.product import Product, tree
from tests.tools.server import Index


def on_small_disk(folder: Path) -> tuple[str, ...]:
    """A command that starts another with a disk of 1 MiB mounted at `folder`, for it alone."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this kernel lets no user mount a disk of their own")
    mount = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    return ("unshare", "-rm", "sh", "-c", mount, str(folder))


def without_rights() -> tuple[str, ...]:
    """A command that starts another for which modes count, for root too."""
    if os.geteuid():
        return ()
    return ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def test_a_disk_too_small_for_the_download_is_told_before_it(product: Product) -> None:
    product.sdist.unlink()
    sdist = {"project": "vllm", "file": mini.SDIST, "size": 1 << 60, "sha256": "0" * 64}
    product.edit_pin(sdist=sdist)
    done = product.run("verify")
    assert done.code == 2
    assert f"no disk space for {mini.SDIST}: {1 << 40} MiB needed" in done.error
    assert "free some space under" in done.hint


def test_a_disk_too_small_for_the_clone_is_told_before_it(product: Product) -> None:
    done = product.run_by(on_small_disk(product.root / "build"), "apply")
    assert done.code == 2
    assert "no disk space for the work clone: 512 MiB needed" in done.error
    assert not product.clone.exists()


def test_a_disk_that_fills_up_during_the_download_is_told(product: Product, index: Index) -> None:
    product.sdist.unlink()
    data = os.urandom(3 << 20)
    index.projects["vllm"][mini.SDIST] = data
    sdist = {"project": "vllm", "file": mini.SDIST, "size": 1, "sha256": mini.digest(data)}
    product.edit_pin(sdist=sdist)
    small = on_small_disk(product.sdist.parent)
    done = product.run_by(small, "verify", PIP_INDEX_URL=index.url)
    assert done.code == 2
    assert "no disk space left" in done.error
    assert done.hint == "free some, then run this again"


@pytest.mark.parametrize("verb", ["fetch", "apply", "export", "clean"])
def test_a_build_folder_that_cannot_be_written_is_told(product: Product, verb: str) -> None:
    build = product.root / "build"
    before = tree(product.root)
    build.chmod(0o555)
    done = product.run_by(without_rights(), verb)
    build.chmod(0o755)
    assert done.code == 2, done
    assert f"cannot write {build}/.lock: Permission denied" in done.error
    assert done.hint == "make build writable for this user"
    assert tree(product.root) == before


def test_patches_that_cannot_be_written_are_told(applied: Product) -> None:
    (applied.clone / "docs/index.md").write_text("# mine\n")
    applied.git("commit", "--quiet", "--all", "--message", "[Doc] Mine")
    before = applied.series()
    applied.patches.chmod(0o555)
    done = applied.run_by(without_rights(), "export")
    assert applied.run_by(without_rights(), "export", "--check").code == 1
    applied.patches.chmod(0o755)
    assert done.code == 2
    assert "cannot write" in done.error
    assert done.hint == "make patches writable for this user"
    assert applied.series() == before
    assert "written  0004-Doc-Mine.patch" in applied.succeed("export")


def test_a_python_without_venv_says_which_package_has_it(product: Product, tmp_path: Path) -> None:
    """A standard library of links, less what Debian puts into python3-venv."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(os.__file__).parent
    home = tmp_path / "python"
    (home / "lib" / version).mkdir(parents=True)
    for path in library.iterdir():
        if path.name not in ("venv", "ensurepip", "site-packages", "__pycache__"):
            (home / "lib" / version / path.name).symlink_to(path)
    (product.root / "build/tools").unlink()
    product.sdist.unlink()
    base = os.path.realpath(sys.executable)
    command = ("env", f"PYTHONHOME={home}", base, "-m", "scripts", "fetch")
    done = subprocess.run(
        command, cwd=product.root, env=product.env(), capture_output=True, text=True
    )
    assert done.returncode == 2, done
    assert "cannot make virtual environments" in done.stderr
    assert "hint: install it: apt-get install " in done.stderr
    assert "-venv" in done.stderr
    assert not (product.root / "build/tools").exists()


def test_apply_needs_only_git_and_python_where_the_sdist_is_there(
    product: Product, tmp_path: Path
) -> None:
    """No network, no `build/tools`: what a machine behind a wall has."""
    (product.root / "build/tools").unlink()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(str(shutil.which("git")))
    assert "3 patches applied" in product.succeed("apply", PATH=str(tmp_path / "bin"))
    assert not (product.root / "build/tools").exists()
