"""Patches as data, commits from them and back, rules over them."""
