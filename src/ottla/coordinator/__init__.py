"""Coordinators: state that lives in a partition of an internal topic. A shell runs it, the rest is pure."""
