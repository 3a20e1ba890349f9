"""A platform plug-in as others ship them: its model runner has its own copy of the release's code.

`install` makes it known to vLLM in this process and those that it starts.
"""

# ruff: noqa: ANN401 (what vLLM passes)

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

_RELEASE = "OWN_PLATFORM_RELEASE"
_COPIED = {
    "vllm.v1.worker.gpu_model_runner": "_update_states",
    "vllm.v1.worker.gpu.model_runner": "update_requests",
}
"""Module of a runner → the method that takes what the scheduler sends of known requests."""


def install(folder: Path, release: Path) -> None:
    """`release` is the unpatched tree; `folder` gets the metadata of an installed package."""
    metadata = folder / "own_platform-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own-platform\nVersion: 1.0\n")
    entry = f"[vllm.platform_plugins]\nown = {__name__}:register\n"
    (metadata / "entry_points.txt").write_text(entry)
    sys.path.append(str(folder))
    os.environ["PYTHONPATH"] += os.pathsep + str(folder)
    os.environ[_RELEASE] = str(release)
    # A named device is taken without a look at any plug-in.
    os.environ.pop("VLLM_TARGET_DEVICE", None)


def register() -> str:
    """What vLLM calls: the name of the platform."""
    return f"{__name__}.OwnPlatform"


def _own_platform() -> type[Any]:
    from vllm.platforms import builtin_platform_plugins
    from vllm.utils.import_utils import resolve_obj_by_qualname

    (name,) = filter(None, (plugin() for plugin in builtin_platform_plugins.values()))
    builtin: type[Any] = resolve_obj_by_qualname(name)

    class OwnPlatform(builtin):
        """The one of this machine, but for the worker."""

        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            super().check_and_update_config(vllm_config)
            vllm_config.parallel_config.worker_cls = f"{__name__}.OwnWorker"

    return OwnPlatform


def _own_worker() -> type[Any]:
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        from vllm.v1.worker.cpu_worker import CPUWorker as Builtin
    else:
        from vllm.v1.worker.gpu_worker import Worker as Builtin

    class OwnWorker(Builtin):  # type: ignore[misc,valid-type]
        """The one of this machine, but for the model runner."""

        def init_device(self) -> None:
            super().init_device()
            runner = type(self.model_runner)
            self.model_runner.__class__ = type("OwnModelRunner", (runner,), _copied(runner))

    return OwnWorker


def _copied(runner: type[Any]) -> dict[str, Any]:
    """The release's methods of `runner`, as they run among today's names."""
    found: dict[str, Any] = {}
    for cls in runner.__mro__:
        if name := _COPIED.get(cls.__module__):
            path = Path(os.environ[_RELEASE], *cls.__module__.split(".")).with_suffix(".py")
            (whole,) = [
                node
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.FunctionDef) and node.name == name
            ]
            code = compile(ast.Module([whole], []), str(path), "exec", dont_inherit=True)
            exec(code, vars(sys.modules[cls.__module__]) | {"__name__": __name__}, found)
    assert found, runner.__mro__
    return found


def __getattr__(name: str) -> Any:
    """Classes of vLLM are there once the platform is known, which is asked for here first."""
    made = {"OwnPlatform": _own_platform, "OwnWorker": _own_worker}
    if name not in made:
        raise AttributeError(name)
    globals()[name] = made[name]()
    return globals()[name]
