"""Spark looks for modules named pyspark_* and takes their DefaultSource: so it finds the format "ottla"."""

from __future__ import annotations

from ottla.spark.source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
