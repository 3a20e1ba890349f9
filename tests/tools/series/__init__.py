"""Tests of `scripts/series`."""
