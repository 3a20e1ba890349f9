"""Tests of `scripts/release`."""
