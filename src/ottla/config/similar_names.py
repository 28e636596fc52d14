"""The nearest known name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib  # imported only for an error message

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return near[0] if near else None
