"""What each verb does and prints: the one place that prints, one module a group of verbs."""

from __future__ import annotations


def say(line: str) -> None:
    """Print a line at once: work of minutes tells how far it is."""
    print(line, flush=True)
