"""Regular expressions over topic names, in RE2's syntax as Kafka's library (re2j) reads it."""

from ottla.coordinator.groups.regex.pattern import Pattern, compile
from ottla.coordinator.groups.regex.syntax import InvalidExpression

__all__ = ["InvalidExpression", "Pattern", "compile"]
