"""Reads text files named on the command line."""

from __future__ import annotations


def read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
