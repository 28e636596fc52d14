"""Reading the text files that a command line names."""

from __future__ import annotations


def read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
