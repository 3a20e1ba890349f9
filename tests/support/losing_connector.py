"""A KV connector that has the whole prompt, until it has to load it."""

# ruff: noqa: ANN401, ARG002 (what vLLM passes)

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.request import Request


@dataclass
class Lost(KVConnectorMetadata):
    """Blocks that a step believes loaded."""

    blocks: set[int] = field(default_factory=set)


class LosingConnector(KVConnectorBase_V1):
    """Promises all whole blocks of a prompt that the prefix cache lacks, and loads none."""

    def __init__(
        self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig
    ) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._lost = Lost()

    # -- the scheduler's side --

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int, bool]:
        block = self._vllm_config.cache_config.block_size
        whole = (request.num_prompt_tokens - 1) // block * block
        return max(whole - num_computed_tokens, 0), False

    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        if num_external_tokens:
            self._lost.blocks.update(*blocks.get_block_ids())

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> Lost:
        lost, self._lost = self._lost, Lost()
        return lost

    # -- the worker's side --

    def get_block_ids_with_load_errors(self) -> set[int]:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, Lost)
        return metadata.blocks

    def start_load_kv(self, *arguments: Any, **options: Any) -> None:
        pass

    def wait_for_layer_load(self, layer_name: str) -> None:
        pass

    def save_kv_layer(self, *arguments: Any, **options: Any) -> None:
        pass

    def wait_for_save(self) -> None:
        pass
