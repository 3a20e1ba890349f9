"""Tests of `scripts/proof`."""
