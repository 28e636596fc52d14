"""Regular expressions over topic names: RE2's syntax, as Kafka's library for it reads it."""

from ottla.coordinator.groups.regex.pattern import Pattern, compile
from ottla.coordinator.groups.regex.syntax import InvalidExpression

__all__ = ["InvalidExpression", "Pattern", "compile"]
