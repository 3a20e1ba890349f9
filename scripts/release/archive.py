"""The archive of a release, unpacked or read as git sees a tree; a hostile one is refused."""

from __future__ import annotations

import gzip
import hashlib
import shlex
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from scripts.core.errors import OverlayError


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """Every member of the sdist at `path`, or an error on the first that would leave its folder."""
    top = path.name.removesuffix(".tar.gz")
    for member in archive:
        parts = PurePosixPath(member.name).parts
        link = PurePosixPath(member.linkname) if member.issym() else PurePosixPath()
        # A repository inside would take the place of ours, with its hooks.
        inside = parts[:1] == (top,) and not {"..", ".git"} & {part.lower() for part in parts}
        kept = member.isfile() or member.isdir() or member.issym()
        if not inside or not kept or link.is_absolute() or ".." in link.parts:
            raise OverlayError(
                f"{path} is hostile: member {member.name!r} is no file, folder or link inside",
                hint="do not use this file; find out where it came from",
            )
        yield member


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OverlayError(
            f"{path} is not a readable archive: {error}",
            hint=f"remove it to download it again: rm {shlex.quote(str(path))}",
        ) from error


def unpack(path: Path, folder: Path) -> Path:
    """Unpack the sdist at `path` below `folder`; the top of the tree."""
    top = path.name.removesuffix(".tar.gz")
    with _opened(path) as archive:
        for member in _members(archive, path):
            # Owner and time stay out: they differ between machines, git keeps neither.
            archive.extract(member, folder, set_attrs=False)
            if member.isdir() or (member.isfile() and member.mode & 0o100):
                (folder / member.name).chmod(0o755)
    return folder / top


def blobs(path: Path) -> dict[str, tuple[str, str]]:
    """Path → git's mode and blob id, computed from the archive without unpacking it."""
    top = path.name.removesuffix(".tar.gz")
    found = {}
    with _opened(path) as archive:
        for member in _members(archive, path):
            name = member.name.removeprefix(f"{top}/")
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isfile() else None
            data = file.read() if file else member.linkname.encode()
            plain = "100755" if member.mode & 0o100 else "100644"
            blob = hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest()
            found[name] = ("120000" if member.issym() else plain, blob)
    return found
