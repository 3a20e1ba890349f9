"""Where everything lives below the repository root, the lock that guards it, files kept whole."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.core.errors import OverlayError

SCRATCH = ".scratch-"  # prefix of temporary folders in `build`


@dataclass(frozen=True)
class Layout:
    """Paths of one checkout of this repository; `clone` is `VLLM_DIR` where that is set."""

    root: Path
    clone: Path
    adopted: bool
    """True where `clone` is a checkout of the user's (`VLLM_DIR`), not one that we made."""

    @classmethod
    def of(cls, root: Path, vllm_dir: str | None) -> Layout:
        if vllm_dir:
            return cls(root, Path(vllm_dir).expanduser().absolute(), adopted=True)
        return cls(root, root / "build" / "vllm", adopted=False)

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def pin_file(self) -> Path:
        return self.patches / "upstream.json"

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def downloads(self) -> Path:
        return self.build / "downloads"

    @property
    def reports(self) -> Path:
        return self.build / "reports"

    @property
    def tools(self) -> Path:
        return self.build / "tools"

    @property
    def style(self) -> Path:
        """Upstream's own ruff and mypy, see `each`."""
        return self.build / "style"

    @property
    def pycache(self) -> Path:
        """Bytecode of what the environment runs, so that no tree holds any."""
        return self.build / "pycache"

    @property
    def kept(self) -> Path:
        """What waits for a person after a conflict of `pick` or `roll`."""
        return self.build / "kept"

    @property
    def removed(self) -> Path:
        """What a verb took out of its place, which may have a person's work in it."""
        return self.build / "removed"

    @property
    def venv(self) -> Path:
        return self.build / "venv"

    def shown(self, path: Path) -> str:
        """`path` as a person in the repository root would type it to a shell."""
        inside = path.is_relative_to(self.root)
        return shlex.quote(os.path.relpath(path, self.root) if inside else str(path))


@contextmanager
def locked(layout: Layout, verb: str) -> Iterator[None]:
    """Hold `build/.lock` for `verb`, or fail at once and name the holder.

    The kernel drops the lock when its process ends, so a crash leaves none behind.
    """
    layout.build.mkdir(parents=True, exist_ok=True)
    with (layout.build / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise OverlayError(
                f"{holder} is at work on {layout.shown(layout.build)}",
                hint="wait for it to end, then run this again",
            ) from None
        file.truncate(0)
        file.write(f"`{verb}` (pid {os.getpid()})\n")
        file.flush()
        for left in layout.build.glob(f"{SCRATCH}*"):  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)  # its git may still be ending
        yield
        file.truncate(0)


def move_folder(folder: Path, place: Path) -> None:
    """Move a folder to `place`, which may be on another disk: it is there whole, or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = place.with_name(f"{SCRATCH}{place.name}")
        shutil.rmtree(part, ignore_errors=True)  # by a run that was killed
        shutil.copytree(folder, part, symlinks=True)
        os.rename(part, place)
        shutil.rmtree(folder)


def write_whole(path: Path, text: str) -> None:
    """Have `text` in the file `path`, in a folder that may be new: all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
