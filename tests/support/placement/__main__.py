"""Bring the table of field placements up to date with the installed vLLM."""

from __future__ import annotations

import sys

from tests.support.placement import TABLE, WORDS, fields_of_tree, tree, update


def main() -> int:
    """Rewrite the table; 1 where a field has no word yet."""
    unknown = update(fields_of_tree(tree()))
    for line in unknown:
        sys.stderr.write(f"{TABLE.name}: one of {', '.join(WORDS)} for: {line}\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
