"""Regular expressions beside re2j, the library that Kafka uses: what is accepted, and which names match."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.coordinator.groups.regex import InvalidExpression, compile
from tests.interop.groups.peer import ask

GENERATED = 6000


def _words(file: str) -> list[str]:
    return Path(__file__).with_name(file).read_text(encoding="utf-8").split()


NAMES = [*_words("names.txt"), ""]

HAND_PICKED = [*_words("expressions.txt"), "", " ", "\\ ", "a b", "a\nb", "(?m)a$\n^b", "\t"]

ATOMS = _words("atoms.txt")
REPEATS = (
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,3}",
    "{0,2}",
    "{2,}",
    "{0}",
    "{3}?",
    "{,2}",
    "{1,",
    "**",
    "{2,1}",
)
GROUPS = ("(", "(", "(?:", "(?i:", "(?-i:", "(?s:", "(?P<n>", "(?<m>", "(?m-s:", "(?U:", "(?=", "(?<!")
NOISE = "()[]{}|*+?^$.\\-:,0129abpPQExk<>=!&"


def random_expression(source: random.Random, depth: int = 0) -> str:
    kind = source.random()
    if depth > 4 or kind < 0.35:
        return source.choice(ATOMS)
    if kind < 0.6:
        return "".join(random_expression(source, depth + 1) for _ in range(source.randint(1, 4)))
    if kind < 0.72:
        return "|".join(random_expression(source, depth + 1) for _ in range(source.randint(2, 3)))
    if kind < 0.86:
        weights = [3] * 11 + [1] * (len(REPEATS) - 11)
        return random_expression(source, depth + 1) + source.choices(REPEATS, weights)[0]
    weights = [4] * (len(GROUPS) - 2) + [1, 1]
    return source.choices(GROUPS, weights)[0] + random_expression(source, depth + 1) + ")"


def bent(source: random.Random, text: str) -> str:
    """With a few characters added, taken away or changed."""
    characters = list(text)
    for _ in range(source.randint(1, 3)):
        position = source.randint(0, len(characters))
        characters[position : position + source.randint(0, 1)] = source.choice(("", *NOISE))
    return "".join(characters)


def generated() -> list[str]:
    source = random.Random(2)
    texts = [random_expression(source) for _ in range(GENERATED // 2)]
    # A range of small Cyrillic letters without case keeps re2j busy for ever, so none may arise by chance.
    bendable = [text for text in HAND_PICKED if "-\\x{" not in text]
    texts += [bent(source, source.choice((random_expression(source), *bendable))) for _ in texts]
    return texts


def judged_by_us(text: str) -> str:
    try:
        pattern = compile(text)
    except InvalidExpression:
        return "refused"
    return "ok " + "".join("01"[pattern.matches(name)] for name in NAMES)


@pytest.mark.parametrize("texts", [HAND_PICKED, generated()], ids=["hand-picked", "generated"])
def test_expressions_are_taken_refused_and_matched_as_by_kafka(texts: list[str]) -> None:
    answers = ask([" ".join(["regex", text.encode().hex(), *NAMES]) for text in texts])
    ours = [judged_by_us(text) for text in texts]
    different = [
        (text, answer, own) for text, answer, own in zip(texts, answers, ours, strict=True) if own != answer
    ]
    assert different == []
    accepted = sum(answer != "refused" for answer in answers)
    assert len(texts) / 5 < accepted < len(texts) * 19 / 20  # both sides of the line are tried
