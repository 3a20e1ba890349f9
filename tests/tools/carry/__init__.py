"""Tests of `scripts/carry`."""
