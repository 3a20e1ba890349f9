"""A fork at a later release, from the first pick to the merge, by typing what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools import forks, mini
from tests.tools.carry.test_pick import ALL, rows
from tests.tools.product import Done, Product
from tests.tools.series.test_stack_apply import FIRST, SECOND, THIRD

A = mini.FILES["vllm/a.py"]


def typed(product: Product, line: str) -> Done:
    """A printed line, typed as it stands."""
    return product.shell(line.replace("make ", f"make PYTHON={product.command()[0]} "))


@pytest.fixture
def fork(product: Product, tmp_path: Path) -> Path:
    """The archive of v0.29.0, which has the first patch in its own words and dropped a file of the
    second; then changes of the fork's own.
    """
    repo = forks.imported(product.upstream, tmp_path)
    mini.git(repo, "rm", "--quiet", "vllm/crlf.py")
    text = mini.edited(A, ("    return 2\n", "    two = 22\n    return two\n"))
    version = b"__version__ = version = '0.29.0'\n"
    mini.commit(repo, "Import vLLM 0.29.0", {"vllm/a.py": text, "vllm/_version.py": version},
                who=forks.OWN)  # fmt: skip
    forks.commit(repo, "Our answer", "vllm/a.py", ("return 28\n", "return 27 + 1\n"))
    return repo


def test_from_the_first_pick_to_the_merged_branch(applied: Product, fork: Path) -> None:
    name = "the fork's place"
    fork = fork.rename(applied.root.parent / name)

    # They look first. Two lines tell them where they stand, and what the release has.
    look = applied.run("pick", FORK=f"../{name}", ONTO=forks.ONTO, DRY_RUN="1")
    assert look.code == 3, look
    assert look.out.split("\n")[:2] == [
        "stopped: 0001, 0002 of 3 patches conflict in 1 file; the fork is as it was",
        "do: run it without DRY_RUN=1 to mend it, --skip what v0.29.0 has: 0001",
    ]
    found = rows(look)
    assert found[FIRST].endswith("v0.29.0 has #1, first in v0.29.0")
    assert "deleted in the fork, 1 hunk left out: vllm/crlf.py" in found[SECOND]
    assert found[THIRD] == "clean"
    assert max(map(len, look.out.split("\n"))) <= 100

    # They go on, leave out the first, and mend the second.
    done = applied.run("pick", FORK=f"../{name}", ONTO=forks.ONTO)
    steps, _, drop = done.hint.partition("\n")
    mend, add, go_on, again = steps.split("; ")
    (status,) = re.findall(r"`(.*?)`", mend)
    kept = status.split(" -C ")[1].split()[0]
    assert "both modified:   vllm/a.py" in typed(applied, status).out
    skip = go_on.partition(" (")[0].replace("--continue", "--skip")
    assert typed(applied, skip).code == 1  # stops at the second
    early = typed(applied, again)
    assert (early.code, "is unfinished in" in early.err) == (2, True)  # of make
    path = applied.root / kept / "vllm/a.py"
    path.write_bytes(re.sub(
        rb"<<<<<<< .*?\n(.*?)=======\n.*?>>>>>>> .*?\n", rb"\1", path.read_bytes(), flags=re.DOTALL
    ).replace(b"27 + 1", b"270 + 10"))  # fmt: skip
    assert typed(applied, add).code == 0
    assert typed(applied, go_on.partition(" (")[0]).code == 0

    last = typed(applied, again)
    assert last.code == 0, last
    assert rows(last)[FIRST] == "left out by hand"
    branch = re.findall(r"^picked as branch (\S+) .* but 0001: see above$", last.out, re.MULTILINE)
    assert not (applied.root / kept).exists()
    assert drop.strip() == f"or drop it all: rm -rf {kept}"

    # They merge it, and another pick has nothing to add.
    who = {f"GIT_{r}_{w}": "x" for r in ("AUTHOR", "COMMITTER") for w in ("NAME", "EMAIL")}
    mini.git(fork, "merge", "--quiet", "--no-ff", "-m", "Take the series", branch[0], env=who)
    log = mini.git(fork, "log", "--no-merges", "--format=%s", f"{forks.ONTO}^1..{forks.ONTO}")
    assert log.split("\n") == [ALL[2], ALL[1]]
    assert b"return 270 + 10\n" in (fork / "vllm/a.py").read_bytes()
    assert not (fork / "vllm/crlf.py").exists()
    more = applied.run("pick", FORK=f"../{name}", ONTO=forks.ONTO, PATCHES="2-3", BRANCH="more")
    assert (more.code, "nothing to pick" in more.out) == (0, True), more
