"""Carry an ordered patch series on a pinned vLLM: `python3 -m scripts VERB`."""
