"""Make the hub in the folder that the command line names."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.hub import make_hub


def main(arguments: list[str]) -> int:
    """Make the hub in the folder that the command line names."""
    if len(arguments) != 1:
        sys.stderr.write("usage: hub FOLDER\n")
        return 2
    make_hub(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
