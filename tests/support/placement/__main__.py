"""Bring the tables of field placements and of transfers up to date with the installed vLLM."""

from __future__ import annotations

import sys

from tests.support.placement import TABLE, WORDS, fields_of_tree, tree, update
from tests.support.placement.transfers import TRANSFERS, transfers
from tests.support.unbuilt import READ


def main() -> int:
    """Rewrite the tables; 1 where a field has no word yet."""
    TRANSFERS.write_text(transfers(tree(), READ), encoding="utf-8")
    unknown = update(fields_of_tree(tree()))
    for line in unknown:
        sys.stderr.write(f"{TABLE.name}: one of {', '.join(WORDS)} for: {line}\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
