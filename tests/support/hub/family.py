"""Families that are part of transformers: its own defaults are their configuration."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.checkpoints.base import MEAN_STD, Checkpoint, Ids, Json

QWEN_VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QWEN_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}


def family(
    architecture: str,
    model_type: str,
    processor: Json,
    *,
    tokens: tuple[str, ...] = (),
    named: Mapping[str, str] | None = None,
    ids: Mapping[str, str] | None = None,
    image: Json | None = None,
    video: Json | None = None,
    audio: Json | None = None,
    placeholders: Mapping[str, str] | None = None,
    **config: object,
) -> Checkpoint:
    """A checkpoint whose configuration is its type's default with `config` on top.

    `ids` maps a key of the configuration to the token whose id it holds, `named` an attribute of
    the tokenizer to a token; `image`, `video` and `audio` are what their processors are told.
    """

    def made(found: Ids) -> Json:
        held = {key: found[token] for key, token in (ids or {}).items()}
        return {"architectures": [architecture], "model_type": model_type, **held, **config}

    files: dict[str, Json | str] = {"processor_config.json": processor}
    first = {**(audio or {}), **(image or {})}
    if first:
        files["preprocessor_config.json"] = {**processor, **first}
    if video:
        files["video_preprocessor_config.json"] = {**processor, **video}
    named = named or {}
    every = tuple(dict.fromkeys((*tokens, *named.values(), *(ids or {}).values())))
    return Checkpoint(
        made, tokens=every, tokenizer=named, files=files, placeholders=placeholders or {}
    )


def image(kind: str, **more: object) -> Json:
    return {"image_processor_type": kind, **MEAN_STD, **more}
