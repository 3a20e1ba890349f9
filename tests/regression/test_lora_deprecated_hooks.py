"""Callers and models that know only the deprecated LoRA hooks stay whole."""

# ruff: noqa: ANN401 (models and their stand-ins)

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import pytest

from tests.support import lora
from tests.support.lora import CONNECTOR, COUNTS, ENCODER, Counts
from tests.support.stand_ins import hooked, instance, is_fixed, modalities, stand_ins


def one_warning(call: Callable[[], Any], hook: str) -> Any:
    """What `call` returns, after it has warned once, of `hook` and at its own line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    (warning,) = caught
    assert warning.category is DeprecationWarning
    assert hook in str(warning.message)
    assert COUNTS in str(warning.message)
    assert warning.filename == __file__
    return result


def parameter(cls: type, hook: str) -> str:
    """The name of the one parameter that `hook` of `cls` had at the pinned release."""
    owner = lora.pinned_owner(cls)
    assert owner is not None
    pinned = lora.pinned_hooks(owner).get(hook) or getattr(_base(), hook)
    _, name = signature(pinned).parameters
    return name


def test_direct_callers_of_the_deprecated_hooks_get_what_the_pinned_release_gave() -> None:
    for cls, owner in hooked():
        for model in (instance(cls, m) for m in stand_ins(owner)):
            for n in (0, 64, 256 * 576):
                if is_fixed(owner, model, n):
                    continue
                tower, connector = lora.pinned_counts(
                    cls, model, modality=modalities(cls)[0], num_mm_embeds=n
                )
                if owner == "Blip2":
                    connector = n
                for hook, asked, counted in ((ENCODER, n, tower), (CONNECTOR, tower, connector)):
                    call, number, name = getattr(model, hook), int(asked), parameter(cls, hook)
                    rows = one_warning(partial(call, number), hook)
                    assert (type(rows), rows) == (int, counted or 0), cls
                    assert one_warning(partial(call, **{name: number}), hook) == rows


@pytest.mark.parametrize("tower", [0, 1, 3, 4, 5, 1024, 1025, 1026, 2049, 2050, 10**7])
def test_the_deprecated_connector_hook_inverts_the_tower_at_any_count(tower: int) -> None:
    from vllm.model_executor.models.internvl import InternVLChatModel
    from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration as Qwen2VL

    for cls, owner in ((InternVLChatModel, "InternVLChatModel"), (Qwen2VL, "Qwen2VL")):
        for model in stand_ins(owner)[:3]:
            hooks = lora.pinned_hooks(cls)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = getattr(instance(cls, model), CONNECTOR)(tower)
            assert found == hooks[CONNECTOR](model, tower)


def _base() -> Any:
    from torch import nn
    from vllm.model_executor.models.interfaces import SupportsMultiModal

    class Base(nn.Module, SupportsMultiModal):
        pass

    return Base


def _migrated() -> Any:
    from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration

    class Migrated(Qwen2VLForConditionalGeneration):
        def __init__(self) -> None:
            import torch

            torch.nn.Module.__init__(self)
            vars(self).update(vars(stand_ins("Qwen2VL")[1]))

    return Migrated


def counting(tower: int, connector: int | None) -> Callable[..., Counts]:
    """The new hook of a model that runs so many rows for each embedding."""

    def get_mm_lora_token_counts(_self: Any, *, num_mm_embeds: int, **_: Any) -> Counts:
        return num_mm_embeds * tower, connector and num_mm_embeds * connector

    return get_mm_lora_token_counts


def runtime(model: Any, num_mm_embeds: int = 10) -> Counts:
    """What the runtime is told."""
    counts: Counts = model.get_mm_lora_token_counts(
        modality="image", mm_kwargs=None, num_mm_embeds=num_mm_embeds
    )
    return counts


def test_models_with_the_deprecated_pair_only_work_without_a_warning() -> None:
    class Legacy(_base()):  # type: ignore[misc]
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 4 + 1

        def get_num_mm_connector_tokens(self, num_vision_tokens: int) -> int:
            return num_vision_tokens // 4

    class Heir(Legacy):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert runtime(Legacy()) == (41, 10)
        assert runtime(Heir()) == (41, 10)
        assert Heir().get_num_mm_encoder_tokens(10) == 41


def test_models_with_the_deprecated_tower_hook_only_have_no_connector() -> None:
    class Legacy(_base()):  # type: ignore[misc]
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 4

    assert runtime(Legacy()) == (40, None)


def test_models_with_the_new_hook_only_answer_the_deprecated_ones() -> None:
    class New(_base()):  # type: ignore[misc]
        get_mm_lora_token_counts = counting(9, 2)

    class Heir(New):
        pass

    for model in (New(), Heir()):
        assert runtime(model) == (90, 20)
        assert one_warning(lambda m=model: m.get_num_mm_encoder_tokens(10), ENCODER) == 90
        assert one_warning(lambda m=model: m.get_num_mm_connector_tokens(90), CONNECTOR) == 20


def test_models_with_both_forms_keep_both() -> None:
    class Both(_base()):  # type: ignore[misc]
        get_mm_lora_token_counts = counting(9, 2)

        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 9

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert runtime(Both()) == (90, 20)
        assert Both().get_num_mm_encoder_tokens(10) == 90
    assert one_warning(lambda: Both().get_num_mm_connector_tokens(90), CONNECTOR) == 20


def test_models_without_hooks_say_so() -> None:
    class Nothing(_base()):  # type: ignore[misc]
        pass

    with pytest.raises(NotImplementedError, match="Nothing does not support LoRA on its tower"):
        runtime(Nothing())


def test_an_heir_that_overrides_one_deprecated_hook_is_honoured() -> None:
    class Tower(_migrated()):  # type: ignore[misc]
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 4 + 4

    class Connector(_migrated()):  # type: ignore[misc]
        def get_num_mm_connector_tokens(self, num_vision_tokens: int) -> int:
            return num_vision_tokens // 4 + 7

    class Extended(_migrated()):  # type: ignore[misc]
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            rows: int = super().get_num_mm_encoder_tokens(num_image_tokens)
            return rows + 4

    class Grandchild(Tower):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert runtime(Tower()) == (44, 11)
        assert runtime(Connector()) == (40, 17)
        assert runtime(Extended()) == (44, 11)
        assert runtime(Grandchild()) == (44, 11)


def test_an_heir_of_a_deprecated_model_may_move_to_the_new_hook() -> None:
    class Old(_migrated()):  # type: ignore[misc]
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 4 + 4

    class New(Old):
        get_mm_lora_token_counts = counting(1, 1)

    assert runtime(New()) == (10, 10)


def test_of_several_parents_the_first_in_line_counts() -> None:
    Migrated = _migrated()  # noqa: N806 (a class)

    class Mixin:
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 100

    class Legacy(_base()):  # type: ignore[misc]
        def get_num_mm_encoder_tokens(self, num_image_tokens: int) -> int:
            return num_image_tokens * 50

        def get_num_mm_connector_tokens(self, num_vision_tokens: int) -> int:
            return num_vision_tokens

    class NewMixin:
        get_mm_lora_token_counts = counting(3, None)

    class MixinFirst(Mixin, Migrated):  # type: ignore[misc]
        pass

    class MixinLast(Migrated, Mixin):  # type: ignore[misc]
        pass

    class LegacyFirst(Legacy, Migrated):  # type: ignore[misc]
        __init__ = Migrated.__init__

    class LegacyLast(Migrated, Legacy):  # type: ignore[misc]
        pass

    class NewFirst(NewMixin, Legacy):  # type: ignore[misc]
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert runtime(MixinFirst()) == (1000, 250)
        assert runtime(MixinLast()) == (40, 10)
        assert runtime(LegacyFirst()) == (500, 500)
        assert runtime(LegacyLast()) == (40, 10)
        assert runtime(NewFirst()) == (30, None)
