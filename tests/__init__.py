"""Tests of the patches and of the scripts that carry them."""
