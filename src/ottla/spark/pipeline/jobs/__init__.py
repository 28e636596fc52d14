"""Pipelines built from flags instead of a file: archive, replay, load, mirror, profile."""
