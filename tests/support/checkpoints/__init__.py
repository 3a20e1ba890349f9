"""Tiny multimodal checkpoints, made offline and the same every time.

Every module here but `base` and `weights` holds a table `CHECKPOINTS`, name to checkpoint.
`python -m tests.support.checkpoints NAME FOLDER [--weights]` makes one of them.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.checkpoints.base import EOS, MAX_POSITIONS, Checkpoint, Ids, Json
from tests.support.checkpoints.weights import write_weights


def _tables() -> dict[str, Checkpoint]:
    found: dict[str, Checkpoint] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name not in ("__main__", "base", "weights"):
            table = importlib.import_module(f"{__name__}.{module.name}").CHECKPOINTS
            twice = sorted(found.keys() & table.keys())
            if twice:
                raise ValueError(f"checkpoints {twice} of {module.name} are in another module too")
            found |= table
    return dict(sorted(found.items()))


CHECKPOINTS: Mapping[str, Checkpoint] = _tables()


def make_checkpoint(name: str, folder: Path, *, weights: bool = False) -> Path:
    """Write checkpoint `name` into `folder`, which is made, and return the folder.

    Without `weights` an engine needs `--load-format dummy`. Raises `KeyError` for a name
    that is not in `CHECKPOINTS`.
    """
    write(CHECKPOINTS[name], folder)
    if weights:
        write_weights(folder, CHECKPOINTS[name].hub_names)
    return folder


def write(checkpoint: Checkpoint, folder: Path) -> None:
    """Write all files of `checkpoint` into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = _write_tokenizer(checkpoint, folder)

    config = {"torch_dtype": "float32", "eos_token_id": ids[EOS], **checkpoint.config(ids)}
    for file, content in {**checkpoint.files, "config.json": config}.items():
        _write(folder / file, content)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> Ids:
    """A byte-level tokenizer without merges: ids 0 to 255 are bytes."""
    # Imported here, so that the table above can be read without any dependency.
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: index for index, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = (EOS, *checkpoint.tokens)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in tokens])
    tokenizer.save(str(folder / "tokenizer.json"))

    tokenizer_config: Json = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "pad_token": EOS,
        "model_max_length": MAX_POSITIONS,
        "extra_special_tokens": dict(checkpoint.tokenizer),
    }
    if checkpoint.chat_template is not None:
        placeholders = "{% set PLACEHOLDERS = " + json.dumps(dict(checkpoint.placeholders)) + " %}"
        tokenizer_config["chat_template"] = placeholders + checkpoint.chat_template
    _write(folder / "tokenizer_config.json", tokenizer_config)
    return {token: tokenizer.token_to_id(token) for token in tokens}


def _write(path: Path, content: Json | str) -> None:
    if not isinstance(content, str):
        content = json.dumps(content, indent=1, sort_keys=True) + "\n"
    path.write_text(content, encoding="utf-8")
