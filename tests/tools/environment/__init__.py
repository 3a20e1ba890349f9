"""Tests of `scripts/environment`."""
