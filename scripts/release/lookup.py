"""Look a release up: its files with their hashes on the package index, its commit in git."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from scripts.core.errors import OverlayError
from scripts.core.git import Git, GitError
from scripts.core.layout import Layout
from scripts.release import index
from scripts.release.pin import Artefact, Pin

UNKNOWN = "0" * 40


@dataclass(frozen=True)
class Wish:
    """What `roll` is asked for: the release, and where it comes from."""

    tag: str
    commit: str = ""
    kind: str = "sdist"
    url: str = ""


def named(layout: Layout, pin: Pin, tag: str) -> str:
    """The tag that was asked for; `latest` is the newest release on the index."""
    return f"v{index.newest(layout, pin.project)}" if tag == "latest" else tag


def propose(layout: Layout, pin: Pin, wish: Wish) -> Pin:
    """The pin of the release that is asked for, with hashes as the index has them.

    Its commit is `UNKNOWN` where nobody says it and no repository is in reach.
    """
    version = wish.tag.removeprefix("v")
    if not re.fullmatch(r"v\d+(\.\d+)+\w*", wish.tag):
        raise OverlayError(f"{wish.tag!r} is no tag of a release", hint="make roll TAG=v0.29.0")
    if wish.tag == pin.tag:
        raise OverlayError(f"{wish.tag} is the pin already", hint="TAG names another release")
    listed: dict[str, dict[str, tuple[Artefact, str]]] = {}

    def like(old: Artefact) -> Artefact | None:
        """The file of the new release in the place of `old`."""
        if old.project not in listed:
            listed[old.project] = index.files(layout, old.project, version)
        found = listed[old.project]
        same = old.file.replace(pin.version, version)
        end = re.sub(r".*_(?=[^_]+_?\d*\.whl$)", "", old.file)  # the processor; the rest may change
        others = [name for name in sorted(found) if name.endswith(end)]
        name = same if same in found else others[0] if len(others) == 1 else ""
        return found[name][0] if name else None

    sdist = like(pin.sdist)
    if sdist is None:
        raise OverlayError(
            f"the configured package index has no {pin.project} {version}",
            hint="see `python3 -m pip config list`; a mirror may lag or filter",
        )
    wheels = {
        device: {machine: new for machine, old in sorted(by.items()) if (new := like(old))}
        for device, by in pin.wheels.items()
    }
    day = listed[sdist.project][sdist.file][1] or pin.released
    return replace(pin, tag=wish.tag, commit=_commit(layout, pin, wish), released=day,
                   sdist=sdist, wheels=wheels)  # fmt: skip


def _commit(layout: Layout, pin: Pin, wish: Wish) -> str:
    if wish.commit:
        if not re.fullmatch(r"[0-9a-f]{40}", wish.commit):
            raise OverlayError(f"COMMIT={wish.commit} is no full commit id", hint="40 hex digits")
        return wish.commit
    try:
        return Git(layout.root).tagged(wish.url or pin.repository, wish.tag) or UNKNOWN
    except GitError:
        return UNKNOWN


def shown(new: Pin) -> list[str]:
    """The proposed pin as lines for a person to confirm."""
    files = [new.sdist, *(w for by in new.wheels.values() for w in by.values())]
    commit = "unknown" if new.commit == UNKNOWN else new.commit
    lines = [f"{new.project} {new.tag}, released {new.released}, commit {commit}"]
    return lines + [f"  {one.sha256}  {one.file} ({one.size} bytes)" for one in files]
