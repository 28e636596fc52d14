"""Finds the streams that a SQL statement reads: the names after FROM and JOIN.

The picture uses them, and the builder, which builds only what a sink needs; Spark itself decides what a
statement means. Rule: comments, strings and the statement's own WITH names are not streams.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<skip>--[^\n]*|/\*.*?\*/|\s+)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
  | `(?P<quoted>(?:[^`]|``)+)`
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BEFORE = ("from", "join")
_ENDS = {
    *("where", "group", "order", "having", "limit", "union", "intersect", "except", "on", "using", "window"),
    *(
        "inner",
        "left",
        "right",
        "full",
        "cross",
        "semi",
        "anti",
        "natural",
        "join",
        "lateral",
        "select",
        "sort",
    ),
}


def names_read(statement: str) -> list[str]:
    """The names in order, each once, in lower case."""
    tokens = [
        (match.lastgroup or "", match[match.lastgroup or 0])
        for match in _TOKEN.finditer(statement)
        if match.lastgroup not in ("skip", "text")
    ]
    own = _with_names(tokens)
    found: dict[str, None] = {}
    depth = 0
    lists: list[int] = []  # the depths at which a comma separates streams
    for at, (kind, text) in enumerate(tokens):
        lower = text.lower()
        if text == "(":
            depth += 1
        elif text == ")":
            lists = [level for level in lists if level < depth]
            depth -= 1
        elif kind == "word" and lower in _ENDS and depth in lists:
            lists.remove(depth)
        is_from = kind == "word" and lower in _BEFORE
        if is_from and lower == "from" and depth not in lists:
            lists.append(depth)
        if (is_from or (text == "," and depth in lists)) and at + 1 < len(tokens):
            name_kind, name = tokens[at + 1]
            follows = tokens[at + 2][1] if at + 2 < len(tokens) else ""
            if name_kind in ("word", "quoted") and follows not in ("(", ".") and name.lower() not in own:
                found[name.lower()] = None
    return list(found)


def _with_names(tokens: list[tuple[str, str]]) -> set[str]:
    """Names followed by `AS (`."""
    return {
        tokens[at][1].lower()
        for at in range(len(tokens) - 2)
        if tokens[at + 1][1].lower() == "as"
        and tokens[at + 2][1] == "("
        and tokens[at][0] in ("word", "quoted")
    }
