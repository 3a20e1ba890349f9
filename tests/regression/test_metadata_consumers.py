"""Readers of host metadata that no audited family comes by, on the simulated accelerator."""

# ruff: noqa: ANN401 (stand-ins for models)

from __future__ import annotations

from importlib import import_module
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor
from tests.support.towers import Sent, beside_pruned_image, faults, of_model, select

MODELS = "vllm.model_executor.models"
GRIDS = torch.tensor([[4, 4], [2, 2]])


def kimi_vl(sent: Sent) -> dict[str, Any]:
    return {"pixel_values": sent(20, 3), "image_grid_hws": GRIDS}


def kimi_k25(sent: Sent) -> dict[str, Any]:
    return {"pixel_values": sent(20, 3), "grid_thws": torch.tensor([[1, 4, 4], [1, 2, 2]])}


@pytest.mark.parametrize("indices", [[], [1], [1, 0]])
@pytest.mark.parametrize(
    ("module", "name", "make"),
    [
        ("kimi_vl", "KimiVLForConditionalGeneration", kimi_vl),
        ("kimi_k25", "KimiK25ForConditionalGeneration", kimi_k25),
    ],
)
def test_items_for_a_graph_are_selected_where_their_fields_are(
    accelerator: Accelerator, sent: Sent, module: str, name: str, make: Any, indices: list[int]
) -> None:
    assert select(of_model(module, name), make(sent), indices) == len(indices)
    assert faults(accelerator) == []


def test_positions_beside_pruned_images_of_qwen3_are_sent_without_a_wait(
    accelerator: Accelerator, sent: Sent
) -> None:
    embeds = beside_pruned_image(
        of_model("qwen3_vl", "Qwen3VLForConditionalGeneration"), sent(6, 8)
    )

    assert embeds.host[:, 8:11].tolist() == [[0, h, w] for h in range(2) for w in range(3)]
    assert faults(accelerator) == []


def test_a_pruned_video_of_qwen3_is_put_together_without_a_wait(
    accelerator: Accelerator, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    qwen3_vl = import_module(f"{MODELS}.qwen3_vl")
    start, end, token = 1, 2, 3
    monkeypatch.setattr(
        qwen3_vl.Qwen3VLMultiModalProcessor, "get_video_repl",
        lambda tokens_per_frame, **_: SimpleNamespace(
            full=[start, *[token] * sum(tokens_per_frame), end]
        ),
    )  # fmt: skip
    cls = qwen3_vl.Qwen3VLForConditionalGeneration
    model = SimpleNamespace(
        _tokenizer=None, use_deepstack=False, is_multimodal_pruning_enabled=True,
        config=SimpleNamespace(
            vision_start_token_id=start, vision_end_token_id=end, video_token_id=token
        ),
        visual=SimpleNamespace(spatial_merge_size=2),
        get_language_model=lambda: SimpleNamespace(embed_input_ids=lambda ids: sent(len(ids), 8)),
        get_mrope_input_positions=lambda input_tokens, **_: (
            torch.arange(3 * len(input_tokens)).view(3, -1), 0
        ),
    )  # fmt: skip
    model._get_expanded_positions = MethodType(cls._get_expanded_positions, model)
    with accelerator.unwatched():
        qwen3_vl._cached_tensor(token, device=DEVICE)  # once for the life of the process
        retention = torch.tensor([True, False, True, False]).to(DEVICE)

    final = cls._create_final_video_embeddings(model, sent(2, 8), [2], [0.0], [1, 4, 4], retention)

    assert final.shape == (4, 13)
    assert final.host[:, 11:].tolist() == [[1, 0], [0, 1], [0, 1], [0, 0]]
    assert faults(accelerator) == []


def test_lengths_of_funasr_stay_on_the_host(accelerator: Accelerator, sent: Sent) -> None:
    def same(x: Any, *_: Any) -> Any:
        return x

    encoder = SimpleNamespace(
        output_size=lambda: 4, embed=same, after_norm=same, tp_norm=same,
        encoders0=[], encoders=[], tp_encoders=[],
    )  # fmt: skip

    forward = of_model("funasr", "SenseVoiceEncoderSmall").forward
    _, lengths = forward(encoder, sent(2, 5, 4), torch.tensor([3, 7]))

    assert not isinstance(lengths, DeviceTensor)
    assert lengths.tolist() == [3, 5]
    assert faults(accelerator) == []


def test_cohere_asr_knows_the_lengths_that_its_convolutions_make() -> None:
    subsampling = of_model("cohere_asr", "ConvSubsampling")(
        "dw_striding", subsampling_factor=4, feat_in=8, feat_out=6, conv_channels=4
    )
    lengths = torch.tensor([16, 9])

    _, made = subsampling(torch.zeros(2, 16, 8), lengths)

    assert subsampling.get_output_lengths(lengths).tolist() == made.tolist()
