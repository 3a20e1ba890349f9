"""What each verb does and prints: the one place that prints, one module a group of verbs."""

from __future__ import annotations

import re


def say(line: str) -> None:
    """Print a line at once: work of minutes tells how far it is."""
    print(line, flush=True)


def words(asked_for: str) -> list[str]:
    """The words of a setting that lists some."""
    return re.split(r"[\s,]+", asked_for) if asked_for else []
