"""Multimodal requests through a real renderer, and what its budgets say about them."""

# ruff: noqa: ANN401 (items and options are what vLLM takes)

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.support import media

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer


@dataclass(frozen=True)
class Answer:
    """What one request was made into, each by modality of its single item."""

    tokens: Mapping[str, int]
    """Embeddings that the item takes in the prompt."""
    hashes: Mapping[str, str]
    data: Mapping[str, Mapping[str, Any]]
    """Fields of the item, e.g. `pixel_values`."""


def image(width: int, height: int) -> Any:
    import numpy as np
    from PIL import Image

    return Image.fromarray(np.full((height, width, 3), 127, dtype=np.uint8))


def video(frames: int, width: int, height: int) -> Any:
    """Frames of shape (frames, height, width, 3) at 2 fps, and their metadata."""
    import numpy as np

    return np.full((frames, height, width, 3), 127, dtype=np.uint8), media.metadata(frames)


def budgets(renderer: BaseRenderer[Any], **counts: int) -> dict[str, int]:
    """Most tokens of one item by modality, with `counts` items, one each unless given."""
    info = renderer.get_mm_processor().info
    counts = counts or dict.fromkeys(info.supported_mm_limits, 1)
    seq_len = renderer.model_config.max_model_len
    return dict(info.get_mm_max_tokens_per_item(seq_len, counts))


def dummy_tokens(renderer: BaseRenderer[Any], modality: str) -> int:
    """Tokens of the item that memory profiling runs."""
    processor = renderer.get_mm_processor()
    inputs = processor.dummy_inputs.get_dummy_processor_inputs(
        renderer.model_config.max_model_len, {modality: 1}, {}
    )
    return _tokens(processor.apply(inputs, _timing()))[modality]


def ask(
    renderer: BaseRenderer[Any],
    items: Mapping[str, Any],
    mm_processor_kwargs: Any = None,
    *,
    uuids: Any = None,
    in_prompt: Iterable[str] | None = None,
) -> Answer:
    """Process one item of each modality in `items` as a request does.

    The prompt has a placeholder for each, or for the modalities `in_prompt`.
    """
    several = {m: [item] for m, item in items.items()}
    result = process(renderer, several, mm_processor_kwargs, uuids, in_prompt)
    return Answer(
        tokens=_tokens(result),
        hashes={m: hashes[0] for m, hashes in result["mm_hashes"].items()},
        data={m: i[0].get_data() for m, i in result["mm_kwargs"].items() if i[0] is not None},
    )


def ask_all(
    renderer: BaseRenderer[Any], items: Mapping[str, list[Any]], mm_processor_kwargs: Any = None
) -> dict[str, list[tuple[int, str]]]:
    """Process the items of one request: tokens and hash of each, by modality."""
    result = process(renderer, items, mm_processor_kwargs)
    return {
        m: [(r.get_num_embeds(), h) for r, h in zip(ranges, result["mm_hashes"][m], strict=True)]
        for m, ranges in result["mm_placeholders"].items()
    }


def process(
    renderer: BaseRenderer[Any],
    items: Mapping[str, list[Any]],
    mm_processor_kwargs: Any = None,
    uuids: Any = None,
    in_prompt: Iterable[str] | None = None,
) -> Any:
    """What the engine gets of a request."""
    processor = renderer.get_mm_processor()
    wants_metadata = getattr(processor.info.data_parser, "video_needs_metadata", False)
    data = {
        m: [i if m != "video" or wants_metadata else i[0] for i in several]
        for m, several in items.items()
    }
    text = processor.dummy_inputs.get_dummy_text({m: len(items[m]) for m in in_prompt or items})
    process = renderer._process_multimodal
    # A later release, which roll asks, does not take it.
    takes = "tokenization_kwargs" in inspect.signature(process).parameters
    return process(
        renderer.get_tokenizer().encode(text),
        data,
        mm_uuids=uuids,
        mm_processor_kwargs=mm_processor_kwargs,
        **({"tokenization_kwargs": None} if takes else {}),
    )


@contextmanager
def hf_calls() -> Iterator[list[dict[str, Any]]]:
    """Yield a list that grows by the keywords of each merge in an HF processor."""
    from transformers.processing_utils import ProcessorMixin

    merge, calls = ProcessorMixin._merge_kwargs, list[dict[str, Any]]()

    def recording_merge(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs)
        return merge(self, *args, **kwargs)

    with mock.patch.object(ProcessorMixin, "_merge_kwargs", recording_merge):
        yield calls


def _tokens(result: Any) -> dict[str, int]:
    return {m: r[0].get_num_embeds() for m, r in result["mm_placeholders"].items()}


def _timing() -> Any:
    from vllm.multimodal.processing.context import TimingContext

    return TimingContext(enabled=False)
