"""What of upstream's suites a GPU runs unasked: what reaches the series most, in two hours."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.suites import budget
from scripts.suites.areas import Suite
from scripts.suites.baseline import Baseline, Recorded
from scripts.suites.upstream import Choice

CHANGED = ["vllm/multimodal/inputs.py", "vllm/config/vllm.py", "docs/x.md"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    texts = {
        "multimodal/test_a.py": "from vllm.multimodal.inputs import X",
        "lora/test_a.py": "import vllm.multimodal.inputs",
        "kernels/test_a.py": "from vllm.config import other, vllm",
        "apart/test_a.py": "import vllm.configuration",
    }
    for name, text in texts.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    return tmp_path


def choice(name: str, minutes: int, *, step: str = "", why: str = "", shards: int = 1) -> Choice:
    suite = Suite(step or name, "gpu", (), (name,), minutes=minutes, why=why, shards=shards)
    return Choice(suite, "touched")


def chosen(tree: Path, *choices: Choice) -> list[str]:
    fitted = budget.fit(tree, budget.with_limits(choices, None), CHANGED)
    assert all("120 minutes of one GPU" in c.why_not for c in fitted if c.why_not)
    return [c.suite.name for c in fitted if not c.why_not]


def test_what_is_of_the_series_ground_goes_before_what_reaches_as_much(tree: Path) -> None:
    wide = [choice("kernels", 50), choice("multimodal", 60), choice("lora", 60)]
    assert chosen(tree, *wide) == ["multimodal", "lora"]


def test_what_reaches_nothing_of_the_series_is_left_for_all(tree: Path) -> None:
    assert chosen(tree, choice("apart", 5), choice("kernels", 5)) == ["kernels"]


def test_what_we_have_a_reason_for_goes_first(tree: Path) -> None:
    assert chosen(tree, choice("multimodal", 60), choice("apart", 70, why="it caught one")) == [
        "apart"
    ]


def test_a_limit_is_spread_over_the_commands_of_its_step(tree: Path) -> None:
    both = [choice("multimodal", 200, step="s"), choice("lora", 200, step="s")]
    found = budget.with_limits([*both, choice("kernels", 30, shards=4)], None)
    assert [c.limit for c in found] == [100, 100, 120]
    assert chosen(tree, *both) == ["lora"]  # as good, and first by name


def test_for_want_of_a_limit_the_minutes_on_another_tier_count() -> None:
    base = Baseline("cpu", "v1", {}, {"lora": Recorded(180, frozenset(), frozenset())})
    known, unknown = budget.with_limits([choice("lora", 0), choice("kernels", 0)], base)
    assert (budget.minutes(known), budget.minutes(unknown)) == (3, budget.UNKNOWN)
