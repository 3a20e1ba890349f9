"""What waits in towers that no audited family has, and where waits are allowed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import torch

from tests.support import placement
from tests.support.accelerator import Accelerator
from tests.support.towers import Block, Sent, bounds, of_model, run_layer, waits


def test_funaudiochat_knows_the_longest_sequence_on_the_host(
    accelerator: Accelerator, sent: Sent
) -> None:
    block = Block()
    cls = of_model("funaudiochat", "FunAudioChatAudioEncoder")
    tower = SimpleNamespace(
        n_window=2, dtype=torch.float32, conv1=lambda x: x, conv2=lambda x: x[..., ::2],
        positional_embedding=SimpleNamespace(positional_embedding=sent(8, 3)),
        layers=[lambda x, **options: (block(x, **options),)],
        proj=lambda x: x, ln_post=lambda x: x,
    )  # fmt: skip
    tower.padded_and_mask_function = lambda *args, **options: cls.padded_and_mask_function(
        tower, *args, **options
    )
    lengths = torch.tensor([6, 3])
    cls.forward(tower, sent(3, 9), lengths, (lengths - 1) // 2 + 1, speech_maxlen=4)

    assert block.seen
    assert waits(accelerator) == []


def test_a_layer_of_funaudiochat_hands_it_to_attention(
    accelerator: Accelerator, sent: Sent
) -> None:
    block = Block()
    cu_seqlens, longest = bounds(sent)

    run_layer(
        block, "funaudiochat", "FunAudioChatAudioEncoderLayer", "FunAudioChatAudioAttention",
        sent(6, 8), cu_seqlens=cu_seqlens, max_seqlen=longest,
    )  # fmt: skip

    assert [x for _, x in block.seen] == [longest]
    assert waits(accelerator) == []


ALLOWED = {
    "gemma4_mm.py _encode_patches": "attention of a kind other than SDPA: HF makes its mask",
    "jina.py forward": "no multimodal model; token ids are on the device alone",
    "qwen2_5_omni_thinker.py _process_audio_input": "HF's tower before transformers 5.9",
    "qwen2_5_omni_thinker.py embed_input_ids": "token ids of a step are on the device alone",
    "qwen2_5_vl.py _postprocess_video_embeds_evs": "which tokens are kept depends on the pixels",
    "qwen2_5_vl.py recompute_mrope_positions": "which tokens were kept depends on the pixels",
    "qwen3_vl.py _get_expanded_positions": "which tokens were kept depends on the pixels",
    "qwen3_vl.py _postprocess_video_embeds_evs": "which tokens are kept depends on the pixels",
    "qwen3_vl.py _recompute_mrope_positions": "which tokens were kept depends on the pixels",
    "siglip.py _flip_sequences_by_position_ids": "positions of a step are on the device alone",
    "terratorch.py forward": "raw inputs, of which its own code reads what it wants",
    "transformers/multimodal.py _process_audio_input": "code of HF, any of its models",
    "transformers/multimodal.py _process_image_input": "code of HF, any of its models",
}
"""Where a model may wait, and why the host cannot have the answer."""


def test_models_allow_waits_for_what_the_device_alone_knows() -> None:
    folder = placement.tree() / "model_executor" / "models"
    assert set(_allowed(folder)) == set(ALLOWED)


def _allowed(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and any(
                isinstance(node, ast.Call) and ast.unparse(node.func) == "gpu_sync_allowed"
                for node in ast.walk(function)
            ):
                yield f"{path.relative_to(folder).as_posix()} {function.name}"
