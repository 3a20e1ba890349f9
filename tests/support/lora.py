"""LoRA on the towers of multimodal models: which classes take it, what they say, what they run."""

# ruff: noqa: ANN401 (models and their items)

from __future__ import annotations

import ast
import importlib
import pkgutil
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.sources import pinned_source

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.model_executor.models.module_mapping import MultiModelKeys

    from tests.support.models import Inputs

ENCODER = "get_num_mm_encoder_tokens"
CONNECTOR = "get_num_mm_connector_tokens"
COUNTS = "get_mm_lora_token_counts"
HOOKS = (ENCODER, CONNECTOR, COUNTS)

Counts = tuple[int, int | None]
"""Tower rows, and connector rows or None."""


@cache
def multimodal_classes() -> tuple[type, ...]:
    """Every multimodal model class of the tree, found by importing all of them.

    Raises `ImportError` if a module that defines a hook cannot be imported.
    """
    import vllm.model_executor.models as models
    from vllm.model_executor.models.interfaces import SupportsMultiModal

    for module in pkgutil.walk_packages(models.__path__, f"{models.__name__}."):
        try:
            importlib.import_module(module.name)
        except ImportError:  # an optional dependency
            spec = module.module_finder.find_spec(module.name, None)
            if spec and spec.origin and any(h in Path(spec.origin).read_text() for h in HOOKS):
                raise
    found = {c for c in _heirs(SupportsMultiModal) if c.__module__.startswith("vllm.")}
    return tuple(sorted(found, key=lambda c: (c.__module__, c.__qualname__)))


def _heirs(cls: type) -> Iterator[type]:
    for heir in cls.__subclasses__():
        yield heir
        yield from _heirs(heir)


@cache
def pinned_hooks(cls: type) -> Mapping[str, Callable[..., Any]]:
    """The methods of `cls` itself at the pinned release: its hooks and what those call.

    They run on today's module; empty if the class had no hook of its own.
    """
    module = importlib.import_module(cls.__module__)
    package = ".__init__" if hasattr(module, "__path__") else ""
    tree = ast.parse(pinned_source(cls.__module__ + package))
    methods = {
        node.name: node
        for body in (
            n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == cls.__name__
        )
        for node in body
        if isinstance(node, ast.FunctionDef)
    }
    wanted = [name for name in HOOKS if name in methods]
    for name in wanted:
        called = {n.attr for n in ast.walk(methods[name]) if isinstance(n, ast.Attribute)}
        wanted += [n for n in methods if n in called and n not in wanted]

    found: dict[str, Callable[..., Any]] = {}
    future = ast.parse("from __future__ import annotations").body
    for name in wanted:
        code = ast.Module([*future, methods[name]], type_ignores=[])
        namespace = dict(vars(module))
        exec(compile(code, f"pinned {cls.__name__}", "exec"), namespace)
        found[name] = namespace[name]
    return found


def pinned_owner(cls: type) -> type | None:
    """The class in the MRO of `cls` that had hooks at the pinned release, if any."""
    in_tree = (c for c in cls.__mro__ if c.__module__.startswith("vllm.model_executor.models."))
    return next(
        (c for c in in_tree if c.__name__ != "SupportsMultiModal" and pinned_hooks(c)), None
    )


def pinned_counts(cls: type, model: Any, *, modality: str, num_mm_embeds: int) -> Counts:
    """What the pinned release answers for `model`, a stand-in with the attributes it reads."""
    owner = pinned_owner(cls)
    assert owner is not None, cls
    hooks = {n: types.MethodType(f, model) for n, f in pinned_hooks(owner).items()}
    if COUNTS in hooks:
        counts: Counts = hooks[COUNTS](
            modality=modality, mm_kwargs=None, num_mm_embeds=num_mm_embeds
        )
        return counts
    for name, method in hooks.items():
        if name not in HOOKS:
            setattr(model, name, method)
    tower = hooks[ENCODER](num_mm_embeds)
    connector = hooks[CONNECTOR](tower) if CONNECTOR in hooks else None
    return tower, connector if isinstance(connector, int) else None


@dataclass(frozen=True)
class Rows:
    """Rows that entered each LoRA layer, by its name and in the order of the calls."""

    tower: Mapping[str, Sequence[int]]
    connector: Mapping[str, Sequence[int]]


def make_manager(model: Any, vllm_config: VllmConfig, *, max_num_seqs: int = 8) -> Any:
    """Put the LoRA layers of `vllm_config.lora_config` into `model`, as a worker does."""
    import torch
    from vllm.lora.model_manager import LoRAModelManager

    from tests.support.models import one_process

    with one_process(vllm_config):
        return LoRAModelManager(
            model,
            max_num_seqs,
            vllm_config.scheduler_config.max_num_batched_tokens,
            vllm_config.model_config.get_vocab_size(),
            vllm_config.lora_config,
            torch.device("cpu"),
            vllm_config,
        )


def tower_lora(*, max_loras: int = 2, tower: bool = True) -> Any:
    """A float32 `LoRAConfig` of rank 8 at most."""
    import torch
    from vllm.config.lora import LoRAConfig

    return LoRAConfig(
        max_lora_rank=8,
        max_loras=max_loras,
        enable_tower_connector_lora=tower,
        lora_dtype=torch.float32,
    )


def counts_of(model: Any, inputs: Inputs) -> list[Counts]:
    """What the hook says about each item, asked as both model runners ask."""
    return [
        model.get_mm_lora_token_counts(
            modality=feature.modality,
            mm_kwargs=feature.data,
            num_mm_embeds=feature.mm_position.get_num_embeds(),
        )
        for feature in inputs.features
    ]


def run_rows(manager: Any, vllm_config: VllmConfig, mm_kwargs: Sequence[tuple[str, Any]]) -> Rows:
    """Run the encoder on `mm_kwargs`, grouped as both model runners group, and count rows.

    The LoRA layers of `manager` apply no adapter from then on.
    """
    from vllm.lora.layers import LoRAMapping

    # Towers that look up text tokens use the adapter of the language model.
    manager.set_adapter_mapping(LoRAMapping((0,) * 2048, (0,), is_prefill=True))
    for wrapper in manager.punica_wrapper_mapping.values():
        wrapper.add_lora_linear = lambda y, *_, **__: y
    mapping = manager.mm_mapping
    return count_rows(manager.model, manager.modules, mapping, vllm_config, mm_kwargs)


def count_rows(
    model: Any,
    layers: Mapping[str, Any],
    mapping: MultiModelKeys,
    vllm_config: VllmConfig,
    mm_kwargs: Sequence[tuple[str, Any]],
) -> Rows:
    """Run the encoder on `mm_kwargs` and count the rows of `layers`; `mapping` has their parts."""
    import torch
    from vllm.forward_context import set_forward_context
    from vllm.multimodal.utils import group_and_batch_mm_kwargs

    from tests.support.models import one_process

    rows = Rows({}, {})
    handles = []
    for name, layer in layers.items():
        prefixes = (*mapping.language_model, *mapping.tower_model, *mapping.connector)
        prefix = max((p for p in prefixes if name.startswith(p)), key=len)
        if prefix in mapping.language_model:
            continue
        seen = rows.connector if prefix in mapping.connector else rows.tower
        counted = seen.setdefault(name, [])  # type: ignore[attr-defined]
        handles.append(layer.register_forward_pre_hook(_count_into(counted), with_kwargs=True))
    with one_process(vllm_config), torch.inference_mode(), set_forward_context(None, vllm_config):
        for _, _, batch in group_and_batch_mm_kwargs(list(mm_kwargs), device=torch.device("cpu")):
            model.embed_multimodal(**batch)
    for handle in handles:
        handle.remove()
    return rows


def _count_into(counted: list[int]) -> Callable[..., None]:
    def hook(_layer: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        (x, *_) = (*args, *kwargs.values())
        counted.append(x.numel() // x.shape[-1])

    return hook


def add_adapter(manager: Any, adapter: int, *, scale: float, seed: int = 0) -> None:
    """Register and activate an adapter on every LoRA layer, uniform within `scale`."""
    import torch

    lora = manager.create_dummy_lora(adapter, 8, manager.model.embedding_modules)
    generator = torch.Generator().manual_seed(seed)
    for weights in lora.loras.values():
        for name in ("lora_a", "lora_b"):
            held = getattr(weights, name)
            for tensor in held if isinstance(held, list) else [held]:
                if tensor is not None:
                    tensor.uniform_(-scale, scale, generator=generator)
    manager.add_adapter(lora)
    manager.activate_adapter(adapter)
