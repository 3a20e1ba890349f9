"""Ask a release for what the settings of patches/scoped-kwargs.md give: budgets, tokens, refusals.

Prints one JSON line; runs on any release from the pinned one on. Run it as
`python -m tests.support.settings_probe`. What is right stands in the tables of the regression
tests. A row is wrong where the answer is another one, or an error.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.regression import test_scoped_mm_kwargs as qwen
from tests.regression import test_scoped_mm_kwargs_input as refused
from tests.regression import test_scoped_mm_kwargs_models as others
from tests.support.answers import Answers
from tests.support.checkpoints import make_checkpoint
from tests.support.mm_requests import ask, budgets, image, video
from tests.support.models import inspected_in_this_process
from tests.support.renderers import make_renderer
from tests.support.telling import telling

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

Row = tuple[str, Callable[[], object], object]
"""What is asked, how, and the right answer."""
Make = Callable[..., "BaseRenderer[Any]"]


def _of_qwen(make: Make) -> Iterator[Row]:
    for name, recipe, budget, tokens in qwen.TABLE:
        start = qwen.RECIPES[recipe]
        asked = f"{name}, {start or 'no options'} at start"

        def reserved(name: str = name, start: Any = start) -> object:  # noqa: ANN401
            return budgets(make(name, mm_processor_kwargs=start))

        def taken(name: str = name, start: Any = start) -> object:  # noqa: ANN401
            items = {"image": image(800, 600), "video": video(16, 640, 480)}
            return dict(ask(make(name, mm_processor_kwargs=start), items).tokens)

        yield f"{asked}: budget", reserved, budget
        yield f"{asked}: tokens", taken, tokens
    for rule, (start, request, of_image, of_video) in qwen.PRECEDENCE.items():

        def answer(start: Any = start, request: Any = request) -> object:  # noqa: ANN401
            items = {"image": image(2048, 2048), "video": video(2, 1448, 1448)}
            return dict(ask(make("qwen3_vl", mm_processor_kwargs=start), items, request).tokens)

        asked = f"qwen3_vl, {rule}: {start or 'no options'} at start, {request or 'none'} asked for"
        yield asked, answer, {"image": of_image, "video": of_video}


def _refusals(checkpoint: Callable[[str], Path]) -> Iterator[Row]:
    def outcome(kwargs: Any) -> object:  # noqa: ANN401
        try:
            refused.check_start(checkpoint, kwargs)
        except (AttributeError, KeyError, TypeError):
            raise  # it fell over them
        except Exception:
            return "refused"
        return "taken"

    for fault, (kwargs, _) in refused.REJECTED.items():
        yield f"refused at start, {fault}: {kwargs}", partial(outcome, kwargs), "refused"
    for what, kwargs in refused.ACCEPTED.items():
        yield f"taken at start, {what}: {kwargs}", partial(outcome, kwargs), "taken"


def _of_others(make: Make) -> Iterator[Row]:
    def at_start(case: others.Case, kwargs: Any) -> object:  # noqa: ANN401
        renderer = make(case.name, mm_processor_kwargs=kwargs)
        return [_reserved(renderer, case.modality), taken(renderer, case)]

    def in_request(case: others.Case, kwargs: Any) -> object:  # noqa: ANN401
        return taken(make(case.name), case, kwargs)

    def taken(renderer: Any, case: others.Case, request: Any = None) -> int:  # noqa: ANN401
        items = {case.modality: others.items_of(renderer, case)[case.modality]}
        return ask(renderer, items, request).tokens[case.modality]

    for case in others.CASES:
        for kwargs in (case.scoped, {**case.decoy, **case.scoped}):
            right = [case.budget[1], case.tokens[1]]
            yield f"{case.name}, {kwargs} at start", partial(at_start, case, kwargs), right
            asked = f"{case.name}, {kwargs} in a request"
            yield asked, partial(in_request, case, kwargs), case.tokens[1]


def _reserved(renderer: BaseRenderer[Any], modality: str) -> int:
    """Tokens for an item, as the engine computes them; which arguments it takes has changed."""
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.encoder_budget import get_mm_max_toks_per_item

    processor = renderer.get_mm_processor()
    known = {
        "model_config": renderer.model_config,
        "mm_registry": MULTIMODAL_REGISTRY,
        "processor": processor,
        "cache": None,  # a later release takes it; this renderer has none
        "mm_counts": dict.fromkeys(processor.info.supported_mm_limits, 1),
    }
    compute: Callable[..., Mapping[str, int]] = get_mm_max_toks_per_item
    takes = inspect.signature(compute).parameters
    return compute(**{name: known[name] for name in takes})[modality]


def rows(folder: Path) -> Mapping[str, Iterator[Row]]:
    """By group: `qwen` for Qwen2/2.5/3-VL and what is refused, `others` for all other models."""

    @cache
    def checkpoint(name: str) -> Path:
        return make_checkpoint(name, folder / name)

    def make(name: str, **options: Any) -> BaseRenderer[Any]:  # noqa: ANN401
        if name == "transformers_backend":
            options["model_impl"] = "transformers"
        return make_renderer(checkpoint(name), mm_processor_cache_gb=0, **options)

    def short(name: str, **options: Any) -> BaseRenderer[Any]:  # noqa: ANN401
        return make(name, max_model_len=8192, **options)

    def of_qwen() -> Iterator[Row]:
        yield from _of_qwen(make)
        yield from _refusals(checkpoint)

    return {"qwen": of_qwen(), "others": _of_others(short)}


def _wrong(question: Callable[[], object], right: object) -> str:
    """Empty where the answer is right."""
    got = question()
    return "" if got == right else f"{got}, not {right}"


def main(arguments: list[str]) -> int:
    """Print what is wrong of each row, by group, as one line; see `answers`."""
    with (
        telling() as tell,
        inspected_in_this_process(),
        tempfile.TemporaryDirectory() as folder,
    ):
        import vllm

        told = {}
        for group, table in rows(Path(folder)).items():
            answers = Answers()
            for asked, question, right in table if group in (arguments or (group,)) else ():
                answers.put(asked, partial(_wrong, question, right))
            told[group] = asdict(answers)
        tell({"vllm": vllm.__file__, "groups": told})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
