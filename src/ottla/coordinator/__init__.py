"""Coordinators: state that lives in a partition of an internal topic. The runtime is a shell, the rest pure."""
