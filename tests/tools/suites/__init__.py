"""Tests of `scripts/suites`."""
