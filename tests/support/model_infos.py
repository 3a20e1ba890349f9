"""Fill vLLM's cache of what each multimodal model class supports, all in this process.

vLLM starts a process for each class that it meets first, 15 s of a core; upstream's suites meet a
hundred. Run it as `python -m tests.support.model_infos`, with `VLLM_CACHE_ROOT` set.
"""

from __future__ import annotations

from contextlib import suppress
from unittest.mock import patch


def main() -> int:
    """Inspect what is not in the cache; a class that cannot be is left to the test that needs it.

    `vllm.model_executor.models.registry` of the pin keeps one file a class, with its module's hash.
    """
    from vllm.model_executor.models import registry

    with patch.object(registry, "_run_in_subprocess", lambda inspect: inspect()):
        for name in sorted(registry._MULTIMODAL_MODELS):
            with suppress(Exception):
                registry.ModelRegistry.models[name].inspect_model_cls()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
