"""Padding is told on the host, and stripped without a wait."""

# ruff: noqa: ANN401 (stand-ins for models)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.accelerator import DEVICE, Accelerator, DeviceTensor
from tests.support.audit import audit
from tests.support.families import AUDIO, IMAGE, PADDED, VIDEO, Family
from tests.support.pinned_audit import GetReport, check_same_as_pinned
from tests.support.towers import Sent, faults, of_model, waits


@pytest.mark.parametrize("family", PADDED)
def test_nothing_waits(report: GetReport, family: str) -> None:
    found = report(family)

    assert found.faults() == []
    assert {wait for run in found.runs for wait in run.waits} == set()


@pytest.mark.parametrize("part", range(2))
def test_embeddings_are_those_of_the_pinned_release(
    report: GetReport, tmp_path: Path, part: int
) -> None:
    check_same_as_pinned(report, PADDED[part::2], tmp_path)


def test_towers_of_qwen3_omni_wait_for_nothing(checkpoint: Callable[[str], Path]) -> None:
    """Positions are left aside: they need placeholders in the frame of a chat."""
    family = Family({"image": IMAGE, "video": VIDEO, "audio": AUDIO})

    runs = [run for run in audit(family, checkpoint("qwen3_omni")).runs if run.step != "positions"]

    assert {run.case.split()[0] for run in runs} == {"image", "video", "audio"}
    assert [fault for run in runs for fault in run.faults] == []


def test_what_is_on_the_device_already_stays_there(accelerator: Accelerator, sent: Sent) -> None:
    """A frontend with field definitions of its own may not keep on the host what is kept here."""
    from vllm.utils.torch_utils import async_tensor_h2d

    there = async_tensor_h2d(sent(2, 3), device=DEVICE, dtype=torch.int32)

    assert isinstance(there, DeviceTensor)
    assert there.dtype == torch.int32
    assert faults(accelerator) == []


def test_few_and_many_padded_rows_are_packed_in_one_copy(
    accelerator: Accelerator, sent: Sent
) -> None:
    from vllm.model_executor.models.utils import pack_valid_rows

    padded = sent(1800, 5, 2)
    padded.host.copy_(torch.arange(18000.0).view(1800, 5, 2))
    lengths = [n % 7 for n in range(1800)]
    for number, copies in ((3, 0), (16, 0), (17, 1), (1800, 1)):
        before = len(accelerator.record.copies)
        packed = pack_valid_rows(padded[:number], lengths[:number])
        wanted = [padded.host[n, :length] for n, length in enumerate(lengths[:number])]
        assert torch.equal(packed.host, torch.cat(wanted))
        assert len(accelerator.record.copies) == before + copies
    assert accelerator.record.faults() == []


def test_several_tensors_go_in_one_copy(accelerator: Accelerator, sent: Sent) -> None:
    from vllm.model_executor.models.utils import tensors_h2d

    host = [torch.arange(6).view(2, 3), torch.tensor([True, False]), torch.empty(0).int()]

    there = tensors_h2d(host, sent(1).device)

    for wanted, found in zip(host, there, strict=True):
        assert isinstance(found, DeviceTensor)
        assert found.dtype == wanted.dtype
        assert torch.equal(found.host, wanted)
    assert len(accelerator.record.copies) == 1
    assert accelerator.record.faults() == []


@pytest.mark.parametrize("ragged", [False, True])
def test_gemma4_unified_strips_padding_by_what_the_host_knows(
    accelerator: Accelerator, sent: Sent, ragged: bool
) -> None:
    cls = of_model("gemma4_unified", "Gemma4UnifiedForConditionalGeneration")
    same = _Projection()
    model = SimpleNamespace(
        vision_embedder=lambda pixels, ids: pixels + ids.sum(-1, keepdim=True),
        embed_vision=same, embed_audio=same, _count_valid_patches=cls._count_valid_patches,
    )  # fmt: skip
    model._process_image_input = lambda image: cls._process_image_input(model, image)
    ids = torch.tensor([[[0, 0], [1, 0], [-1, -1]], [[0, 0], [-1, -1], [-1, -1]]])
    pixels = sent(2, 3, 4)
    images = {"pixel_values": pixels, "pixel_position_ids": ids}
    if ragged:
        images = {key: list(value) for key, value in images.items()}

    embeds = model._process_image_input(images)
    videos = cls._process_video_input(
        model,
        {
            "pixel_values_videos": pixels,
            "pixel_position_ids_videos": ids,
            "video_frame_counts": torch.tensor([2]),
        },
    )
    audios = cls._process_audio_input(
        model,
        {
            "input_features_padded": list(pixels[:, :2]),
            "input_features_mask": [torch.tensor([True, True]), torch.tensor([True])],
        },
    )

    assert [len(x) for x in embeds] == [2, 1]
    assert [len(x) for x in videos] == [3]
    assert [len(x) for x in audios] == [2, 1]
    assert waits(accelerator) == []


def test_moss_audio_strips_padding_by_what_the_host_knows(
    accelerator: Accelerator, sent: Sent
) -> None:
    cls = of_model("moss_audio", "MossAudioEncoder")
    same = _Projection()
    masks: list[list[list[bool]]] = []

    def layer(x: Any, mask: Any) -> Any:
        masks.append(mask.host.tolist())
        return x

    def conv(x: Any) -> Any:
        return x[..., ::2, ::2]

    encoder = SimpleNamespace(
        chunk_frames=16, conv_chunksize=2, deepstack_encoder_layer_indexes=[0],
        _deepstack_capture_map={0: 0}, gelu=same, conv1=conv, conv2=conv, conv3=conv,
        stem_proj=same, embed_positions=lambda n, _: sent(n, 1), layers=[layer],
        layer_norm=same, out_proj=same,
        _compute_downsampled_length=cls._compute_downsampled_length,
    )  # fmt: skip
    encoder._encode_chunk_batch = MethodType(cls._encode_chunk_batch, encoder)
    audio = sent(2, 8, 20)
    assert isinstance(audio, DeviceTensor)
    audio.host.copy_(torch.arange(20.0))

    def audio_encoder(data: Any, **options: Any) -> Any:
        return cls.forward(encoder, data, **options)

    audio_encoder.dtype = torch.float32  # type: ignore[attr-defined]
    model = SimpleNamespace(
        audio_encoder=audio_encoder, audio_adapter=same, deepstack_audio_merger_list=[same]
    )
    first, second = of_model("moss_audio", "MossAudioModel")._process_audio_input(
        model, {"audio_data": audio, "audio_data_seqlens": torch.tensor([20, 9])}
    )

    assert first.host.tolist() == [[0, 0], [8, 8], [16, 16]]
    assert second.host.tolist() == [[0, 0], [8, 8]]
    assert masks == [[[True, True], [True, False]], [[True, True]]]
    assert waits(accelerator) == []
    for alone in (audio[:1], audio[0]):
        assert audio_encoder(alone)[0].host.tolist() == [[[0], [8], [16]]]


class _Projection:
    embedding_projection = SimpleNamespace(weight=torch.empty(0))

    def __call__(self, x: Any) -> Any:
        return x
