"""Tests of the scripts: stories on a small upstream in a temporary folder."""
