"""Make the checkpoint that the command line names."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.support.checkpoints import CHECKPOINTS, make_checkpoint


def main(arguments: list[str]) -> int:
    """Make the checkpoint that the command line names."""
    parser = argparse.ArgumentParser(prog="checkpoints", description=__doc__)
    parser.add_argument("name", choices=CHECKPOINTS, metavar="NAME", help=", ".join(CHECKPOINTS))
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--weights", action="store_true", help="with random weights")
    options = parser.parse_args(arguments)
    make_checkpoint(options.name, options.folder, weights=options.weights)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
