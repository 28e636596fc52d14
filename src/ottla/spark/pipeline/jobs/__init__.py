"""Pipelines made from flags in place of a file: archive, replay, load, mirror, profile."""
