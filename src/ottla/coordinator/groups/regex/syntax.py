r"""Parses RE2 regular expressions as Kafka's library (re2j) does: text -> tree.

The tree contains only what decides whether a whole topic name matches: groups, group names and laziness are
checked and dropped. Topic names are ASCII, so a set of characters is a 128-bit number; characters beyond that
matter only if case is ignored (U+017F is an s and U+212A a k). It accepts and rejects the same texts as re2j,
even where that is odd: after a literal `{` no repetition may follow, and of the capital letters (?i)\p{Ll}
matches only K and S.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

REPEAT_MAX: Final = 1000
_RUNE_MAX: Final = 0x10FFFF
_ALL: Final = (1 << 128) - 1
_NEWLINE: Final = 1 << 10


class InvalidExpression(ValueError):
    """Not a regular expression of this syntax; the text says why."""


class Assertion(Enum):
    """What holds between two characters."""

    TEXT_START = "\\A"
    TEXT_END = "\\z"
    LINE_START = "(?m)^"
    LINE_END = "(?m)$"
    WORD_EDGE = "\\b"
    NO_WORD_EDGE = "\\B"


@dataclass(slots=True)
class Sequence:
    parts: list[Node]


@dataclass(slots=True)
class Choice:
    parts: list[Node]


@dataclass(slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None


Node = int | Assertion | Sequence | Choice | Repeat
"""An int is one character out of a set."""


def _bits(characters: Iterable[str]) -> int:
    mask = 0
    for character in characters:
        mask |= 1 << ord(character)
    return mask


_UPPER: Final = _bits(string.ascii_uppercase)
_LOWER: Final = _bits(string.ascii_lowercase)
_LETTERS: Final = _UPPER | _LOWER
_DIGITS: Final = _bits(string.digits)
WORD: Final = _LETTERS | _DIGITS | _bits("_")

_PERL: Final = {"d": _DIGITS, "s": _bits("\t\n\f\r "), "w": WORD}
_PERL_CLASSES: Final = {**_PERL, **{name.upper(): _ALL & ~mask for name, mask in _PERL.items()}}
_POSIX_CLASSES: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": _ALL,
    "blank": _bits("\t "),
    "cntrl": _bits(map(chr, [*range(0x20), 0x7F])),
    "digit": _DIGITS,
    "graph": _bits(map(chr, range(0x21, 0x7F))),
    "lower": _LOWER,
    "print": _bits(map(chr, range(0x20, 0x7F))),
    "punct": _bits(string.punctuation),
    "space": _bits("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _bits(string.hexdigits),
}
_CATEGORIES: Final = frozenset(
    f"{major}{minor}"
    for major, minors in {
        "C": "cfos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for minor in ("", *minors)
)
_SCRIPT_NAMES: Final = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari
    Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew
    Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada
    Katakana Kayah_Li Kharoshthi Khmer Lao Latin Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic
    Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian
    Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese
    Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
    Ugaritic Unknown Vai Yi
"""
_SCRIPTS: Final = frozenset(_SCRIPT_NAMES.split())
_OTHER_CASE: Final = {"Lu": _LOWER, "Ll": _bits("KS")}
_ESCAPED: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ALPHANUMERIC: Final = frozenset(string.ascii_letters + string.digits)
_NAME: Final = _ALPHANUMERIC | {"_"}
_OCTAL: Final = frozenset(string.octdigits)


@cache
def _unicode_class(name: str) -> int | None:
    """The ASCII part of a general category or a script; None where there is no such name."""
    if name == "Any":
        return _ALL
    if name in _CATEGORIES:
        return _bits(character for character in map(chr, range(128)) if _category(character, name))
    if name in _SCRIPTS:
        return {"Latin": _LETTERS, "Common": _ALL & ~_LETTERS}.get(name, 0)
    return None


def _category(character: str, name: str) -> bool:
    return unicodedata.category(character).startswith(name)


def _fold(mask: int) -> int:
    """With the other case of every letter: in ASCII the two are 32 apart."""
    return mask | (mask & _UPPER) << 32 | (mask & _LOWER) >> 32


def _characters(low: int, high: int, ignores_case: bool) -> int:
    """The ASCII part of a range of code points."""
    mask = ((1 << min(high, 127) + 1) - 1) & ~((1 << low) - 1) if low < 128 else 0
    if ignores_case:
        mask = _fold(mask)
        if low <= 0x17F <= high:
            mask |= _bits("sS")
        if low <= 0x212A <= high:
            mask |= _bits("kK")
    return mask


_PLAIN: Final = {character: 1 << ord(character) for character in map(chr, range(128))}
_PLAIN_FOLDED: Final = {character: _fold(mask) for character, mask in _PLAIN.items()}
for _special in "\\()[]{}|^$.*+?":
    del _PLAIN[_special], _PLAIN_FOLDED[_special]


@dataclass(slots=True)
class _Flags:
    ignores_case: bool = False  # i
    is_multiline: bool = False  # m
    dot_is_all: bool = False  # s

    def copy(self) -> _Flags:
        return _Flags(self.ignores_case, self.is_multiline, self.dot_is_all)


class _Group:
    """An open parenthesis, or the whole expression."""

    __slots__ = ("choices", "flags_before", "parts")

    def __init__(self, flags_before: _Flags) -> None:
        self.flags_before = flags_before
        self.choices: list[Node] = []
        self.parts: list[Node] = []

    def end_choice(self) -> None:
        self.choices.append(self.parts[0] if len(self.parts) == 1 else Sequence(self.parts))
        self.parts = []

    def node(self) -> Node:
        self.end_choice()
        return self.choices[0] if len(self.choices) == 1 else Choice(self.choices)


def parse(text: str) -> Node:
    """Raises InvalidExpression. Does not recurse, so groups may be nested to any depth."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.flags = _Flags()
        self.groups = [_Group(self.flags)]
        self.names: set[str] = set()

    def parse(self) -> Node:
        text = self.text
        follows_repeat = False
        while self.at < len(text):
            character = text[self.at]
            mask = (_PLAIN_FOLDED if self.flags.ignores_case else _PLAIN).get(character)
            is_repeat = character in "*+?{"
            if mask is not None:
                self.groups[-1].parts.append(mask)
                self.at += 1
            elif is_repeat:
                self._repeat(character, follows_repeat)
            else:
                self._plain(character)
            follows_repeat = is_repeat
        if len(self.groups) > 1:
            raise InvalidExpression("a closing ) is missing")
        return self.groups[0].node()

    def _add(self, node: Node) -> None:
        self.groups[-1].parts.append(node)

    def _add_literal(self, character: str) -> None:
        self._add(_characters(ord(character), ord(character), self.flags.ignores_case))

    def _plain(self, character: str) -> None:
        """Parse anything but a repetition."""
        self.at += 1
        flags = self.flags
        if character == "(":
            if self.text.startswith("?", self.at):
                self._extended_group()
            else:
                self.groups.append(_Group(flags))
        elif character == ")":
            self._close()
        elif character == "|":
            self.groups[-1].end_choice()
        elif character == "^":
            self._add(Assertion.LINE_START if flags.is_multiline else Assertion.TEXT_START)
        elif character == "$":
            self._add(Assertion.LINE_END if flags.is_multiline else Assertion.TEXT_END)
        elif character == ".":
            self._add(_ALL if flags.dot_is_all else _ALL & ~_NEWLINE)
        elif character == "[":
            self._add(self._class())
        elif character == "\\":
            self._backslash()
        else:
            self._add_literal(character)

    # --- repetitions ---

    def _repeat(self, character: str, follows_repeat: bool) -> None:
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character, (0, 0))
        if character == "{":
            counts = self._counts()
            if counts is None:
                self.at += 1
                self._add_literal("{")
                return
            least, most = counts
        else:
            self.at += 1
        if self.text.startswith("?", self.at):
            self.at += 1  # lazy: the same names match
        if follows_repeat:
            raise InvalidExpression(f"the repetition operator {character} follows another one")
        parts = self.groups[-1].parts
        if not parts:
            raise InvalidExpression(f"the repetition operator {character} has no operand")
        parts[-1] = Repeat(parts[-1], least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """Parse `{2}`, `{2,}` or `{2,5}`; None if it is something else, which is then literal."""
        end = self.text.find("}", self.at)
        if end < 0:
            return None
        first, comma, last = self.text[self.at + 1 : end].partition(",")
        if not _is_count(first) or (last and not _is_count(last)):
            return None
        self.at = end + 1
        least = _count(first)
        most = least if not comma else _count(last) if last else None
        if most is not None and most < least:
            raise InvalidExpression(f"the repetition {{{first},{last}}} has its larger number first")
        return least, most

    # --- groups ---

    def _extended_group(self) -> None:
        """After `(`, at `?`: a named group, a group without a number, flags, or both of these."""
        text = self.text
        for opening in ("?P<", "?<"):
            if text.startswith(opening, self.at):
                start = self.at + len(opening)
                end = text.find(">", start)
                name = text[start : max(end, start)]
                if not name or not _NAME.issuperset(name):
                    raise InvalidExpression(
                        "a group name must consist of letters, digits and _, between < and >"
                    )
                if name in self.names:
                    raise InvalidExpression(f"duplicate group name {name}")
                self.names.add(name)
                self.at = end + 1
                self.groups.append(_Group(self.flags))
                return
        self._flags_group()

    def _flags_group(self) -> None:
        flags = self.flags.copy()
        is_on = True
        is_named = True  # `-` must be followed by a flag
        for position in range(self.at + 1, len(self.text)):
            character = self.text[position]
            if character == "i":
                flags.ignores_case = is_on
            elif character == "m":
                flags.is_multiline = is_on
            elif character == "s":
                flags.dot_is_all = is_on
            elif character == "-" and is_on:
                is_on = is_named = False
                continue
            elif character in ":)" and is_named:
                if character == ":":
                    self.groups.append(_Group(self.flags))
                self.flags = flags
                self.at = position + 1
                return
            elif character != "U":  # which swaps lazy and greedy
                break
            is_named = True
        raise InvalidExpression("after (? only :, P<name>, <name> and the flags i, m, s and U are supported")

    def _close(self) -> None:
        if len(self.groups) == 1:
            raise InvalidExpression("unexpected closing )")
        group = self.groups.pop()
        self.flags = group.flags_before
        self._add(group.node())

    # --- escapes ---

    def _backslash(self) -> None:
        """After `\\`, outside of a class."""
        text = self.text
        following = text[self.at : self.at + 1]
        assertion = {
            "A": Assertion.TEXT_START,
            "z": Assertion.TEXT_END,
            "b": Assertion.WORD_EDGE,
            "B": Assertion.NO_WORD_EDGE,
        }.get(following)
        if assertion is not None:
            self.at += 1
            self._add(assertion)
        elif following == "Q":
            end = text.find("\\E", self.at + 1)
            for character in text[self.at + 1 : end if end >= 0 else len(text)]:
                self._add_literal(character)
            self.at = end + 2 if end >= 0 else len(text)
        else:
            mask = self._escaped_class()
            if mask is None:
                rune = self._escaped()
                mask = _characters(rune, rune, self.flags.ignores_case)
            self._add(mask)

    def _escaped_class(self) -> int | None:
        """After `\\`: the set if this is `\\d` or `\\pL` or the like, inside or outside of a class."""
        name = self.text[self.at : self.at + 1]
        mask = _PERL_CLASSES.get(name)
        if mask is not None:
            self.at += 1
            return mask
        if name not in ("p", "P"):
            return None
        start = self.at + 1
        end = start + 1
        if self.text.startswith("{", start):
            start += 1
            end = self.text.find("}", start)
            self.at = end + 1
        else:
            self.at = end
        is_negated = name == "P"
        name = self.text[start : max(end, start)]
        if name.startswith("^"):
            is_negated = not is_negated
            name = name[1:]
        mask = _unicode_class(name) if end >= 0 else None
        if mask is None:
            raise InvalidExpression(
                "after \\p a Unicode general category or script is required, as in \\p{Lu}"
            )
        if self.flags.ignores_case:
            mask |= _OTHER_CASE.get(name, 0)
        return _ALL & ~mask if is_negated else mask

    def _escaped(self) -> int:
        """After `\\`: the one character that is meant."""
        text = self.text
        if self.at >= len(text):
            raise InvalidExpression("trailing backslash in the expression")
        character = text[self.at]
        self.at += 1
        if character not in _ALPHANUMERIC:
            return ord(character)
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character in _OCTAL and (character == "0" or text[self.at : self.at + 1] in _OCTAL):
            end = self.at
            while end < min(self.at + 2, len(text)) and text[end] in _OCTAL:
                end += 1
            digits = character + text[self.at : end]
            self.at = end
            return int(digits, 8)
        if character == "x":
            rune = self._hexadecimal()
            if rune is not None:
                return rune
        raise InvalidExpression(f"unknown escape \\{character}")

    def _hexadecimal(self) -> int | None:
        """After `\\x`: two digits, or any number of them in braces."""
        if self.text.startswith("{", self.at):
            end = self.text.find("}", self.at)
            digits = self.text[self.at + 1 : max(end, self.at)]
            after = end + 1
        else:
            after = self.at + 2
            digits = self.text[self.at : after] if after <= len(self.text) else ""
        if not digits or not set(string.hexdigits).issuperset(digits):
            return None
        self.at = after
        digits = digits.lstrip("0") or "0"
        return int(digits, 16) if len(digits) <= 6 and int(digits, 16) <= _RUNE_MAX else None

    # --- classes ---

    def _class(self) -> int:
        """After `[`."""
        text = self.text
        is_negated = text.startswith("^", self.at)
        self.at += is_negated
        mask = 0
        first = self.at
        while self.at == first or not text.startswith("]", self.at):
            if text.startswith("[:", self.at):
                named = self._posix_class()
                if named is not None:
                    mask |= named
                    continue
            if text.startswith("\\", self.at):
                self.at += 1
                escaped = self._escaped_class()
                if escaped is not None:
                    mask |= escaped
                    continue
                self.at -= 1
            mask |= self._class_range()
        self.at += 1
        return _ALL & ~mask if is_negated else mask

    def _class_range(self) -> int:
        text = self.text
        low = high = self._class_character()
        if text.startswith("-", self.at) and not text.startswith("]", self.at + 1):
            self.at += 1
            high = self._class_character()
            if high < low:
                raise InvalidExpression("a range in [] has its larger character first")
        return _characters(low, high, self.flags.ignores_case)

    def _class_character(self) -> int:
        if self.at >= len(self.text):
            raise InvalidExpression("a closing ] is missing")
        character = self.text[self.at]
        self.at += 1
        return self._escaped() if character == "\\" else ord(character)

    def _posix_class(self) -> int | None:
        """Parse at `[:`; None if no `:]` follows: then it is literal."""
        end = self.text.find(":]", self.at)
        if end < 0:
            return None
        name = self.text[self.at + 2 : max(end, self.at + 2)]
        self.at = end + 2
        mask = _POSIX_CLASSES.get(name.removeprefix("^"))
        if mask is None:
            raise InvalidExpression(f"unknown character class [:{name}:]")
        if self.flags.ignores_case:
            mask = _fold(mask)
        return _ALL & ~mask if name.startswith("^") else mask


def _is_count(digits: str) -> bool:
    return digits == "0" or (digits.isascii() and digits.isdigit() and digits[0] != "0")


def _count(digits: str) -> int:
    if len(digits) > 4 or int(digits) > REPEAT_MAX:
        raise InvalidExpression(
            f"something is repeated {digits[:20]} times; at most {REPEAT_MAX} are possible"
        )
    return int(digits)
