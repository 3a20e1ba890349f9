"""A small upstream: a git repository in the shape of vLLM's, and the sdist made from it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TAG = "v0.28.0"
BRANCH = f"overlay/{TAG}"
SDIST = "vllm-0.28.0.tar.gz"
TOP = "vllm-0.28.0"
UPSTREAM = ("upstream", "upstream@example.invalid")
CONTRIBUTOR = ("a contribütor", "contributor@example.invalid")

# The flags of `scripts/series/stack.py` that show with a plain git, said again on purpose.
FORMAT_PATCH = ("--zero-commit", "--full-index", "--no-signature", "--no-stat", "--keep-subject",
                "--no-renames")  # fmt: skip
CONFIG = ("-c", "core.quotePath=false")  # names of files as they are

TRAILERS = """\
Upstream-PR: https://github.com/vllm-project/vllm/pull/1
Upstream-Status: backport v0.29.0
Divergence: none
Regression-Test: tests/regression/test_mini.py
Signed-off-by: a contribütor <contributor@example.invalid>
"""

A = "".join(f"def line_{n}():\n    return {n}\n\n" for n in range(1, 31))


def part(name: int | str) -> str:
    return f"@cached\ndef part_{name}(x):\n    if x:\n        return {name}\n    return None\n\n\n"


B = "from functools import cache as cached\n\n\n" + "".join(part(n) for n in range(1, 13))
# Each change comes out otherwise with other settings of diff: two hunks near each other, a block
# that can slide, blocks that change places.
B_PATCHED = (
    B.replace("return 2\n", "return 20\n")
    .replace(part(5), part(5) + part(0))
    .replace(part(8) + part(9) + part(10), part(10) + part(9) + "# apart\n" + part(8))
)
AREA = b"""\
group: Mini
steps:
- label: Sums %N  # 5min
  key: sums
  device: cpu-small
  timeout_in_minutes: 20
  source_file_dependencies:
  - vllm/
  - "!vllm/sub/"
  - tests/sums
  commands:
  - export MINI_MODE=exported
  - MINI_SPEED=fast pytest -v -s sums/test_small.py -m 'not slow'  # the fast half
  - python3 examples/no_suite.py
  - pytest sums/test_apart.py
  - cd .. && pytest -v -s tests/sums/test_large.py --num-shards=$$COUNT --shard-id=$$JOB
  parallelism: 2
- label: Elsewhere
  key: elsewhere
  device: cpu-small
  source_file_dependencies: [docs/]
  commands:
  - pytest sums/test_docs.py
- label: Kernels
  key: kernels
  device: h200_18gb
  source_file_dependencies: [vllm/]
  commands:
  - pytest sums/test_large.py -k gpu
- label: Many GPUs
  key: many
  num_devices: 2
  source_file_dependencies: [vllm/]
  commands:
  - pytest sums/test_gpus.py
- label: Optional
  key: optional
  device: cpu-small
  optional: true
  source_file_dependencies: [vllm/]
  commands:
  - pytest sums/test_optional.py
"""
SMALL = b"""\
import os

import pytest

import vllm.a as a


def test_two():
    assert a.line_2() == 2


def test_three():
    assert a.line_3() == 3


def test_environment(request):
    assert (os.environ["MINI_MODE"], os.environ["MINI_SPEED"]) == ("exported", "fast")
    assert request.node.get_closest_marker("skip_global_cleanup")


def test_hub():
    raise OSError("We couldn't connect to 'https://huggingface.co' to load the files")


def test_away():
    pytest.skip("not here")


@pytest.mark.slow
def test_slow():
    raise AssertionError("left out by -m")
"""
LARGE = b"""\
import pytest

import vllm.a


@pytest.mark.parametrize("number", range(6))
def test_number(number):
    assert number >= 0
"""
FILES: dict[str, bytes] = {
    ".buildkite/test_areas/mini.yaml": AREA,
    "tests/__init__.py": b"",
    "tests/sums/__init__.py": b"",
    "tests/sums/test_apart.py": b"def test_apart():\n    pass\n",
    "tests/sums/test_large.py": LARGE,
    "tests/sums/test_small.py": SMALL,
    ".gitignore": b"/vllm/_version.py\n*.so\n*.log\n",
    "CMakeLists.txt": b"project(mini)\n",
    "csrc/k.cu": b"__global__ void k() {}\n",
    "docs/index.md": b"# mini\n",
    "pyproject.toml": (
        b"[project]\nname = 'vllm'\n[tool.pytest.ini_options]\nmarkers = ['slow']\n"
        b"[tool.ruff.lint]\nselect = ['F']\n"
    ),
    "setup.py": b"from setuptools import setup\n\nsetup()\n",
    "tests/kept.so": b"tracked, though .gitignore names it\n",
    "tests/test_\u00fcml\u00e4ut.py": "# gr\u00fc\u00dfe\nx = 1\n".encode(),
    "vllm/__init__.py": b"__version__ = '0.28.0'\n",
    "vllm/a.py": A.encode(),
    "vllm/b.py": B.encode(),
    "vllm/crlf.py": b"one = 1\r\ntwo = 2\r\nthree = 3\r\n",
    "vllm/old.py": b"".join(b"x = %d\n" % n for n in range(20)),
}
EXECUTABLE = "tools/run.sh"
SYMLINK = ("vllm/alias.py", "a.py")
GENERATED: dict[str, bytes] = {
    "PKG-INFO": b"Name: vllm\n",
    "setup.cfg": b"[egg_info]\n",
    "vllm.egg-info/PKG-INFO": b"Name: vllm\n",
    "vllm/_version.py": b"version = '0.28.0'\n",
}


@dataclass(frozen=True)
class Upstream:
    """The repository, the commit of its release, and the sdist of that."""

    repo: Path
    commit: str
    sdist: bytes


def git(repo: Path, *args: str, env: Mapping[str, str] | None = None) -> str:
    """The output of git in `repo`, as its maintainer would run it: no configuration but its own."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    isolated = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
    command = ["git", "-C", str(repo), *args]
    done = subprocess.run(command, env=plain | isolated | dict(env or {}), capture_output=True)
    assert done.returncode == 0, f"{command}: {done.stdout!r} {done.stderr!r}"
    return os.fsdecode(done.stdout).rstrip("\n")


def write(repo: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(data)


def commit(
    repo: Path,
    message: str,
    files: Mapping[str, bytes],
    *,
    who: tuple[str, str] = CONTRIBUTOR,
    date: str = "2026-09-01T12:00:00+0200",
) -> str:
    """Write `files` and commit them, tracked files that are ignored included; the new id."""
    write(repo, files)
    name, email = who
    env = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email, "GIT_AUTHOR_DATE": date}
    env |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email, "GIT_COMMITTER_DATE": date}
    if files:
        git(repo, "add", "--force", "--", *files)
    git(repo, "commit", "--quiet", "--allow-empty", "--message", message, env=env)
    return git(repo, "rev-parse", "HEAD")


def archive(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A `.tar.gz` of these members, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return gzip.compress(packed.getvalue(), mtime=0)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o644
    return info


def sdist(repo: Path, extra: Iterable[tuple[tarfile.TarInfo, bytes]] = (), top: str = TOP) -> bytes:
    """The sdist of what `repo` has checked out, with the files that packaging adds."""
    members: list[tuple[tarfile.TarInfo, bytes]] = [(member(top, tarfile.DIRTYPE), b"")]
    for name in git(repo, "ls-files", "-z").split("\0"):
        path = repo / name
        if not name:
            continue
        if path.is_symlink():
            members.append((member(f"{top}/{name}", tarfile.SYMTYPE, os.readlink(path)), b""))
            continue
        info = member(f"{top}/{name}")
        info.mode = 0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644
        members.append((info, path.read_bytes()))
    members += [(member(f"{top}/{name}"), data) for name, data in GENERATED.items()]
    return archive([*members, *extra])


def make(folder: Path) -> Upstream:
    """A repository with a commit before the release, the release, its tag, and one after it."""
    repo = folder / "upstream"
    repo.mkdir()
    git(repo, "init", "--quiet", "--initial-branch=main")
    git(repo, "config", "uploadpack.allowFilter", "true")
    commit(repo, "Begin", {"vllm/__init__.py": b""}, who=UPSTREAM, date="2026-08-01T00:00:00Z")
    write(repo, {EXECUTABLE: b"#!/bin/sh\n"})
    (repo / EXECUTABLE).chmod(0o755)
    link, target = SYMLINK
    (repo / link).symlink_to(target)
    git(repo, "add", "--force", link, EXECUTABLE)
    release = commit(repo, "Release", FILES, who=UPSTREAM, date="2026-08-26T00:00:00Z")
    # As upstream tags; the tagger's date keeps the tag the same each time.
    env = {"GIT_COMMITTER_NAME": UPSTREAM[0], "GIT_COMMITTER_EMAIL": UPSTREAM[1]}
    env["GIT_COMMITTER_DATE"] = "2026-08-26T00:00:00Z"
    git(repo, "tag", "--annotate", "--message", "Release", TAG, env=env)
    packed = sdist(repo)
    commit(repo, "After", {"docs/index.md": b"# later\n"}, who=UPSTREAM)
    return Upstream(repo, release, packed)


def release(
    upstream: Upstream, folder: Path, tag: str, *commits: tuple[str, Mapping[str, bytes]]
) -> Upstream:
    """A later release with these commits (message, files), in a clone of upstream's."""
    repo = folder / f"upstream-{tag}"
    git(folder, "clone", "--quiet", str(upstream.repo), str(repo))
    git(repo, "checkout", "--quiet", "--detach", TAG)
    for message, files in commits:
        commit(repo, message, files, who=UPSTREAM, date="2026-09-05T00:00:00Z")
    git(repo, "tag", tag)
    version = tag.removeprefix("v")
    return Upstream(repo, git(repo, "rev-parse", "HEAD"), sdist(repo, top=f"vllm-{version}"))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def edited(data: bytes, *changes: tuple[str, str]) -> bytes:
    """`data` with each first text replaced by the second; every one must be there."""
    text = data.decode()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text.encode()


def patches(upstream: Upstream, folder: Path) -> dict[str, bytes]:
    """Three patches on the release, as a person with plain git makes them."""
    repo = folder / "contributor"
    git(folder, "clone", "--quiet", str(upstream.repo), str(repo))
    git(repo, "checkout", "--quiet", "--detach", TAG)
    a = FILES["vllm/a.py"]
    first = edited(a, ("return 2\n", "return 22\n"))
    commit(repo, f"[Core] Answer twice: a.py\n\nTwo is not enough.\n\n{TRAILERS}",
           {"vllm/a.py": first})  # fmt: skip
    name = "tests/test_\u00fcml\u00e4ut.py"
    of_second = TRAILERS.replace("pull/1", "pull/2").replace("v0.29.0", "v0.30.0")
    second = {
        "vllm/a.py": edited(first, ("return 28\n", "return 280\n")),
        "vllm/crlf.py": FILES["vllm/crlf.py"].replace(b"two = 2\r\n", b"two = 22\r\n"),
        name: FILES[name].replace(b"x = 1", b"x = 2"),
    }
    body = f"Die Gr\u00f6\u00dfe z\u00e4hlt.\n\n{of_second}"
    commit(repo, f"[Bugfix][MM] Keep `carriage returns`\n\n{body}", second,
           date="2026-09-02T01:02:03-0700")  # fmt: skip
    git(repo, "mv", "vllm/old.py", "vllm/moved.py")
    third = {
        "vllm/b.py": B_PATCHED.encode(),
        "vllm/new.py": b"new = True\n",
        "vllm/sub/__init__.py": b"",
    }
    of_third = TRAILERS.replace("pull/1", "pull/3").replace("backport v0.29.0", "internal ours")
    commit(repo, f"[Frontend] Add a module\n\nIt was missing.\n\n{of_third}", third,
           date="2026-09-03T00:00:00Z")  # fmt: skip
    return formatted(repo, upstream.commit)


def formatted(repo: Path, base: str) -> dict[str, bytes]:
    """File name -> bytes of the commits of `repo` since `base`."""
    out = repo.parent / f"{repo.name}.out"
    git(
        repo,
        *CONFIG,
        "format-patch",
        "--quiet",
        *FORMAT_PATCH,
        "--output-directory",
        str(out),
        base,
    )
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}
