"""Ottla: an event streaming platform that speaks Apache Kafka on every side."""

from ottla.version import __version__

__all__ = ["__version__"]
