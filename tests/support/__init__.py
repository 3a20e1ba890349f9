"""Tiny checkpoints and probes that the tests share."""
