"""What `ci/README.md` states about the pipeline and its environment is so."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

import pytest

from scripts import options
from scripts.environment import native
from scripts.suites import pipeline
from tests.tools.product import REPO, Product

PAGE = (REPO / "ci" / "README.md").read_text()
MAIN = (REPO / "README.md").read_text()


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    below = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*) \|$", below, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return [row for row in cells if row[0].startswith("`")]


def names(text: str) -> list[str]:
    """Of variables, as in `NAME` and `NAME=1`."""
    return re.findall(r"`([A-Z][A-Z0-9_]+)(?:=\S+)?`", text)


def test_each_step_is_there_as_the_page_says(applied: Product) -> None:
    queues = ("CI_CPU_QUEUE", "CI_GPU_QUEUE", "CI_TWO_GPU_QUEUE")
    env = {queue: queue for queue in queues}
    made = [json.loads(applied.succeed("pipeline", **env, CI_NIGHTLY=n)) for n in ("", "1")]
    steps = [step for one in made for step in one["steps"]]
    rows = {row[0].strip("`"): [cell.strip("`") for cell in row[1:]] for row in
            table(PAGE, "The steps")}  # fmt: skip

    assert rows.keys() == {step["key"] for step in steps}
    for step in steps:
        command, after, queue, minutes = rows[step["key"]]
        waits = step.get("depends_on", [])
        assert command in step["command"]
        assert re.findall(r"[\w-]+", after) == ([waits] if isinstance(waits, str) else waits)
        assert (queue, int(minutes)) == (step["agents"]["queue"], step["timeout_in_minutes"])


def _read_by_scripts() -> Iterator[str]:
    """Names that a script asks an environment for: `env.get("NAME")` in any of its spellings."""
    for path in sorted((REPO / "scripts").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            asked = ast.unparse(node.func).removesuffix(".get").rpartition(".")[2]
            first = node.args[0]
            if asked in ("env", "environ", "given") and isinstance(first, ast.Constant):
                yield str(first.value)


def test_every_variable_that_is_read_is_in_one_of_the_two_tables() -> None:
    read = {*_read_by_scripts(), *native.LOCAL_COPY.values()}
    read |= {name.upper().replace("-", "_") for name in options.NAMES}
    image = (REPO / "ci" / "Containerfile").read_text()
    read |= set(re.findall(r"^(?:ARG|ENV|   ) ([A-Z_]+)(?==/|$)", image, re.MULTILINE))
    page = [n for row in table(PAGE, "Environment") for n in names(row[0])]
    main = [n for row in table(MAIN, "Using it") for n in names(row[0])]

    assert len(read) > 40
    # PYTHON is read by the Makefile alone.
    assert sorted([*page, *main, "PATH", "PYTHONPATH"]) == sorted({*read, "PYTHON"})


@pytest.mark.parametrize(
    ("variable", "default"),
    [
        ("CI_CPU_QUEUE", pipeline.settings({}).cpu_queue),
        ("CI_GPU_QUEUE", pipeline.settings({}).gpu_queue),
        ("CI_CUDA_ARCHS", " ".join(pipeline.settings({}).architectures)),
        ("CI_GPU_SHARDS", str(pipeline.settings({}).shards)),
    ],
)
def test_the_default_of_a_choice_is_the_one_that_the_page_names(
    variable: str, default: str
) -> None:
    rows = {row[0]: row[2] for row in table(PAGE, "Environment")}
    assert rows[f"`{variable}`"] == f"`{default}`"


def test_every_variable_of_the_text_is_in_a_table() -> None:
    known = {n for row in table(PAGE, "Environment") for n in names(row[0])}
    known |= {n for row in table(MAIN, "Using it") for n in names(row[0])}
    assert set(names(PAGE)) <= known
