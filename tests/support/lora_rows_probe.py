"""Ask a release for what LoRA on towers needs: rows that it counts, rows that run, who starts.

Prints one JSON line; runs on any release from the pinned one on. Run it as
`python -m tests.support.lora_rows_probe`. Rows that run are counted by forward hooks of the LoRA
layers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tests.regression.test_lora_tower_rows import OPTIONS, TOWERS, WITHOUT_CLASS_TOKEN
from tests.support import lora, models
from tests.support.answers import Answers
from tests.support.checkpoints import make_checkpoint
from tests.support.telling import telling

WITHOUT_TOWER = ("internvl", "lfm2_vl", "llama")
"""Models that have no LoRA on their towers: they serve the language model's."""


def _manager(name: str, folder: Path) -> tuple[Any, Any]:
    place = folder / name
    if not place.exists():
        make_checkpoint(name, place)
    config = models.make_config(place, **OPTIONS.get(name, {}))
    config.lora_config = lora.tower_lora()
    return lora.make_manager(models.make_model(config), config), config


def _counted(model: Any, inputs: models.Inputs) -> tuple[int, int]:  # noqa: ANN401
    """Rows of tower and connector, by the one hook of later releases or the two of the pinned."""
    if hasattr(model, lora.COUNTS):
        counts = lora.counts_of(model, inputs)
        return sum(count[0] for count in counts), sum(count[1] or 0 for count in counts)
    tower = [
        model.get_num_mm_encoder_tokens(feature.mm_position.get_num_embeds())
        for feature in inputs.features
    ]
    return sum(tower), sum(model.get_num_mm_connector_tokens(rows) for rows in tower)


def _wrong(manager: Any, config: Any, data: Mapping[str, Sequence[Any]]) -> str:  # noqa: ANN401
    """How what is counted differs from what runs; empty where it does not."""
    inputs = models.make_inputs(config, data)
    tower, connector = _counted(manager.model, inputs)
    ran = lora.run_rows(manager, config, inputs.mm_kwargs)
    if not ran.tower:
        return "no layer of the tower has LoRA"
    of_tower = {
        sum(seen) for name, seen in ran.tower.items()
        if not any(part in name for part in WITHOUT_CLASS_TOKEN)
    }  # fmt: skip
    of_connector = {sum(seen) for seen in ran.connector.values()}
    said = [
        f"{part}: {counted} counted, {sorted(found)} run"
        for part, counted, found in (
            ("tower", tower, of_tower),
            ("connector", connector, of_connector),
        )
        if found and found != {counted}
    ]
    return "; ".join(said)


def counts(folder: Path) -> Answers:
    """By model and items."""
    told = Answers()
    for name, requests in TOWERS.items():
        asked = [
            f"{name}, {', '.join(f'{len(items)} {modality}' for modality, items in data.items())}"
            f" ({number})"
            for number, data in enumerate(requests, 1)
        ]
        try:
            manager, config = _manager(name, folder)
        except Exception as error:
            told.failed(asked, error)
            continue
        for row, data in zip(asked, requests, strict=True):
            told.put(row, partial(_wrong, manager, config, data))
    return told


def gate(folder: Path) -> Answers:
    """By model without LoRA on its tower, which starts all the same with the option for it."""

    def wrong(name: str) -> str:
        manager, _ = _manager(name, folder)
        return "" if manager.modules else "no layer has LoRA"

    told = Answers()
    for name in WITHOUT_TOWER:
        told.put(f"{name} starts, with LoRA on the language model alone", partial(wrong, name))
    return told


def main(arguments: list[str]) -> int:
    """Print what is wrong of each row, by group, as one line; see `answers`."""
    asked = {"counts": counts, "gate": gate}
    with (
        telling() as tell,
        models.inspected_in_this_process(),
        tempfile.TemporaryDirectory() as folder,
    ):
        import vllm

        told = {name: asdict(asked[name](Path(folder))) for name in arguments or asked}
        tell({"vllm": vllm.__file__, "groups": told})
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
