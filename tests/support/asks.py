"""What engines on tiny checkpoints are asked, and what they tell."""

# ruff: noqa: ANN401 (what `LLM` takes and gives)

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support import media
from tests.support.checkpoints import CHECKPOINTS

if TYPE_CHECKING:
    from vllm import LLM

Answer = dict[str, Any]
"""Of one request: `tokens`, or the `error` that refused it; see `_told`."""
_MAKERS: Mapping[str, Callable[[int], Any]] = {
    "image": media.picture,
    "video": media.clip,
    "audio": media.tone,
}
Items = Mapping[str, tuple[int, ...]]
"""Modality to the numbers of the items to show, see `support.media`."""


def prompt(checkpoint: str, items: Items, **more: Any) -> dict[str, Any]:
    """A prompt of `checkpoint` that shows `items`; keywords go into it as they are."""
    places = CHECKPOINTS[checkpoint].placeholders
    shown = "".join(places[kind] * len(numbers) for kind, numbers in items.items())
    data = {kind: [_MAKERS[kind](n) for n in numbers] for kind, numbers in items.items()}
    return {"prompt": f"{shown} what?", **({"multi_modal_data": data} if data else {}), **more}


def _told(output: Any, pads: set[int]) -> Answer:
    """Greedy tokens and their log probability in all.

    Lengths, in tokens, are those of the prompt, of its images and videos (Qwen's `pads`), and
    of what the prefix cache had of it.
    """
    return {
        "tokens": list(output.outputs[0].token_ids),
        "logprob": output.outputs[0].cumulative_logprob,
        "prompt": len(output.prompt_token_ids),
        "items": sum(token in pads for token in output.prompt_token_ids),
        "cached": output.num_cached_tokens,
    }


def _ask(llm: LLM, *prompts: Any) -> list[Answer]:
    from vllm import SamplingParams

    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=0)
    config = llm.llm_engine.model_config.hf_config
    pads = {getattr(config, f"{kind}_token_id", -1) for kind in ("image", "video")}
    return [_told(output, pads) for output in llm.generate(prompts, greedy, use_tqdm=False)]


def _ask_or_refused(llm: LLM, request: Any) -> Answer:
    """One request, and what it took of the encoder cache, in tokens."""
    from vllm.exceptions import VLLMClientError

    free = encoder_cache(llm).num_free_slots
    try:
        (answer,) = _ask(llm, request)
    # The base has an HF processor that is given a size twice say so itself.
    except (VLLMClientError, ValueError) as error:
        return {"error": str(error)}
    return answer | {"reserved": free - encoder_cache(llm).num_free_slots}


def encoder_cache(llm: LLM) -> Any:
    core: Any = llm.llm_engine.engine_core
    return core.engine_core.scheduler.encoder_cache_manager


def guard() -> str | None:
    """What `VLLM_GPU_SYNC_CHECK` does in this process by now; None where it does nothing."""
    from vllm.utils import gpu_sync_debug

    return gpu_sync_debug._SYNC_CHECK_MODE if gpu_sync_debug._sync_check_enabled else None


@contextmanager
def _sent(llm: LLM) -> Iterator[dict[str, int]]:
    """Yield a dict that afterwards holds `sent`: bytes of items' tensors, as sent to workers."""
    import torch

    core: Any = llm.llm_engine.engine_core
    executor = core.engine_core.model_executor
    execute, sent = executor.execute_model, {"sent": 0}

    def watched(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        for request in scheduled.scheduled_new_reqs:
            for item in filter(None, (feature.data for feature in request.mm_features)):
                values = item.get_data().values()
                sent["sent"] += sum(v.nbytes for v in values if isinstance(v, torch.Tensor))
        return execute(scheduled, *args, **kwargs)

    executor.execute_model = watched
    try:
        yield sent
    finally:
        executor.execute_model = execute


Ask = Callable[["LLM", str], dict[str, Answer]]


def everything(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """Each modality of the checkpoint in one batch: two items, both at once, and a mixture."""
    processor = llm.llm_engine.renderer.mm_processor
    kinds = dict(processor.info.allowed_mm_limits) if processor else {}
    asked: dict[str, Items] = {"text": {}}
    for kind, most in kinds.items():
        asked |= {f"{kind} 1": {kind: (1,)}, f"{kind} 2": {kind: (2,)}}
        if most > 1:
            asked[f"{kind} 1 2"] = {kind: (1, 2)}
    if len(kinds) > 1:
        asked["mixed"] = dict.fromkeys(kinds, (1,))
    answers = _ask(llm, *(prompt(checkpoint, items) for items in asked.values()))
    return dict(zip(asked, answers, strict=True))


def windows(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """A window of images that is sent again, longer by one, and again as it was.

    Each answer says how many bytes of items were `sent` to the workers for it.
    """
    short, long = {"image": (1, 2, 3)}, {"image": (1, 2, 3, 4)}
    answers = {}
    for name, items in {"short": short, "longer": long, "short again": short}.items():
        with _sent(llm) as sent:
            (answer,) = _ask(llm, prompt(checkpoint, items))
        answers[name] = answer | sent
    return answers


def limits(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    asked: dict[str, Items] = {"text": {}, "image": {"image": (1,)}, "video": {"video": (1,)}}
    return {name: _ask_or_refused(llm, prompt(checkpoint, one)) for name, one in asked.items()}


def embeddings(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """An image, and what the tower makes of it in place of the image."""
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(llm.llm_engine.model_config.model)
    seen = processor(images=[media.picture(1)], return_tensors="pt")

    def tower(model: Any) -> Any:
        pixels = seen["pixel_values"].to(model.visual.device, model.visual.dtype)
        return model.visual(pixels, grid_thw=seen["image_grid_thw"].tolist()).cpu()

    embeds = {"image_embeds": llm.apply_model(tower)[0], "image_grid_thw": seen["image_grid_thw"]}
    pixels = prompt(checkpoint, {"image": (1,)})
    given = {"pixels": pixels, "embeddings": pixels | {"multi_modal_data": {"image": embeds}}}
    return {name: _ask_or_refused(llm, one) for name, one in given.items()}


def prompt_embeddings(llm: LLM, _checkpoint: str) -> dict[str, Answer]:
    """A text, and the embeddings of its tokens in place of the text."""
    import torch

    text = "what is this?"
    ids = torch.tensor(llm.get_tokenizer()(text).input_ids)

    def embed(model: Any) -> Any:
        place = next(model.parameters()).device
        return model.embed_input_ids(ids.to(place)).detach().cpu()

    given = {"text": {"prompt": text}, "embeddings": {"prompt_embeds": llm.apply_model(embed)[0]}}
    return {name: _ask_or_refused(llm, one) for name, one in given.items()}


def sizes(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """Per request: nothing, a flat size, each scope with a size, a scope beside a flat size."""
    small = {"size": {"shortest_edge": 4096, "longest_edge": 32768}}
    asked: dict[str, dict[str, Any]] = {
        "stock": {},
        "flat": small,
        "video scope": {"videos_kwargs": small},
        "image scope": {"images_kwargs": small},
    }
    one: Items = {"image": (1,)}
    clip: Items = {"video": (1,)}
    return {
        f"{kind}, {name}": _ask_or_refused(
            llm, prompt(checkpoint, items, mm_processor_kwargs=kwargs)
        )
        for name, kwargs in asked.items()
        for kind, items in (("image", one), ("video", clip))
    }


def long_video(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """A clip of 16 frames and an image, of usual sizes."""
    shown = {"video": media.clip(1, 16, 640, 480), "image": media.picture(1, 800, 600)}
    return {
        kind: _ask_or_refused(
            llm, prompt(checkpoint, {kind: (1,)}) | {"multi_modal_data": {kind: [item]}}
        )
        for kind, item in shown.items()
    }


def waiting(llm: LLM, checkpoint: str) -> dict[str, Answer]:
    """An image, and another when the tower waits for the device, as no tower may."""

    def wait(model: Any) -> None:
        embed = model.embed_multimodal

        def embed_and_wait(**items: Any) -> Any:
            found = embed(**items)
            found[0].sum().item()
            return found

        model.embed_multimodal = embed_and_wait

    answers = {"as it is": _ask(llm, prompt(checkpoint, {"image": (1,)}))[0]}
    llm.apply_model(wait)
    try:
        answers["waiting"] = _ask(llm, prompt(checkpoint, {"image": (2,)}))[0]
    except RuntimeError as error:
        answers["waiting"] = {"error": str(error)}
    return answers
