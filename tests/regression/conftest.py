"""Real renderers on tiny checkpoints: no weights, no network, no accelerator."""

# ruff: noqa: ANN401 (options of ModelConfig)

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.support import checkpoints, lora, models, renderers, towers
from tests.support.accelerator import Accelerator
from tests.support.audit import Report, audit
from tests.support.cuda_tree import cuda_tree
from tests.support.families import FAMILIES
from tests.support.pinned_audit import GetReport

if TYPE_CHECKING:
    from vllm.renderers.base import BaseRenderer

MakeRenderer = Callable[..., "BaseRenderer[Any]"]


@pytest.fixture(scope="session", autouse=True)
def _inspect_models_in_this_process() -> Iterator[None]:
    with models.inspected_in_this_process():
        yield


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make each checkpoint once, however many tests ask for it."""
    root = tmp_path_factory.mktemp("checkpoints")
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = checkpoints.make_checkpoint(name, root / name)
        return made[name]

    return get


@pytest.fixture(scope="session")
def report(
    checkpoint: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> GetReport:
    """Audit each family once, however many tests and workers ask."""
    root = tmp_path_factory.getbasetemp()
    shared = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def get(name: str) -> Report:
        kept = shared / f"audit-{name}.pickle"
        if not kept.exists():
            part = root / kept.name
            part.write_bytes(pickle.dumps(audit(FAMILIES[name], checkpoint(name))))
            part.replace(kept)
        found: Report = pickle.loads(kept.read_bytes())
        return found

    return get


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    """Refuses whatever mixes devices or waits; sends from pinned memory alone wait for nothing."""
    with cuda_tree(strict=True) as accelerator, torch.inference_mode():
        yield accelerator


@pytest.fixture
def sent(accelerator: Accelerator) -> towers.Sent:
    """A tensor of zeros on the device."""
    return towers.sender(accelerator)


@pytest.fixture(scope="session")
def make_renderer(checkpoint: Callable[[str], Path]) -> MakeRenderer:
    """Build the renderer of a checkpoint by name, see `support.renderers`."""

    def make(name: str, **options: Any) -> BaseRenderer[Any]:
        if name == "transformers_backend":
            options["model_impl"] = "transformers"
        return renderers.make_renderer(checkpoint(name), **options)

    return make


@pytest.fixture
def make_manager(checkpoint: Callable[[str], Path]) -> Callable[..., Any]:
    """The LoRA manager of a checkpoint with or without LoRA on the tower."""

    def make(name: str, *, tower: bool = True, **options: Any) -> Any:
        config = models.make_config(checkpoint(name), **options)
        config.lora_config = lora.tower_lora(tower=tower)
        return lora.make_manager(models.make_model(config), config)

    return make


@pytest.fixture
def vllm_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """`caplog` for vLLM's loggers, which do not propagate to the root logger.

    What they say once in a process is heard though a test before this one made them say it.
    """
    from vllm import logger as vllm_logger

    for level_name in ("debug", "info", "warning"):
        getattr(vllm_logger, f"_print_{level_name}_once").cache_clear()
    logger = logging.getLogger("vllm")
    level = logger.level
    logger.addHandler(caplog.handler)
    logger.setLevel(logging.DEBUG)
    yield caplog
    logger.setLevel(level)
    logger.removeHandler(caplog.handler)
