"""Random weights under the names of the hub, so that every engine reads the same model.

`--load-format dummy` needs none of this, but its weights are so small that what the
model answers does not depend on what it is shown.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

_FILE = "model.safetensors"


def write_weights(folder: Path, hub_names: Mapping[str, str]) -> None:
    """Write the weights of the checkpoint in `folder` beside its config, as float32.

    Each tensor's values come from its name alone. `hub_names` is that of `Checkpoint`.
    Raises `AttributeError` for an architecture that transformers does not have.
    """
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, config.architectures[0])(config).float()
    embeddings = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Embedding)
    }
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            noise = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            values = torch.randn(tensor.shape, generator=noise)
            if tensor.ndim < 2:  # norms and biases stay near what they are made with
                tensor += 0.1 * values
            elif name in embeddings:  # small, or a tied head just repeats the last token
                tensor.copy_(0.1 * values)
            else:  # what comes out is about as large as what goes in; few tokens get attention
                scale = 4 if "q_proj" in name else 1
                tensor.copy_(values * scale * (tensor.shape[0] / tensor.numel()) ** 0.5)
    # The model's own names are not the hub's; saving maps most. It would write a config, too.
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch, max_shard_size="10GB")
        saved = load_file(Path(scratch) / _FILE)
    save_file({_renamed(name, hub_names): saved[name] for name in saved}, folder / _FILE)


def _renamed(name: str, prefixes: Mapping[str, str]) -> str:
    for prefix, replacement in prefixes.items():
        if name.startswith(prefix):
            return replacement + name.removeprefix(prefix)
    return name
