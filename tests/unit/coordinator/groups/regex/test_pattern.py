from __future__ import annotations

import contextlib
import re
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.regex import InvalidExpression, compile

NAMES = st.text(alphabet="abAB01._-", max_size=8)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("", "", "a"),
        ("foo.*", "foobar", "afoo"),
        ("a|bc|", "bc", "abc"),
        ("(?i)orders", "ORDERS", "order"),
        ("(?i:a)b", "Ab", "AB"),
        ("x{2,3}", "xxx", "xxxx"),
        ("x{2,}", "xxxxx", "x"),
        ("(ab?){2}", "aba", "ab"),
        ("[^a-c]+", "def", "dea"),
        ("[]-]+", "-]", "a"),
        (r"\d+\.\w+", "12.a_b", "a.b"),
        (r"[[:upper:]\d]+", "A1", "a1"),
        (r"\p{Lu}\P{Lu}", "Aa", "AA"),
        (r"\Qa.b\E+", "a.bb", "aab"),
        (r"\Aa\b-\bb\z", "a-b", "a--b"),
        (r"a\B.*", "ab", "a-b"),
        (r"\x61\142\x{63}", "abc", "abb"),
        ("(?P<name>a)(?<other>b)", "ab", "a"),
        ("a*?(?U)b+", "aabb", "aa"),
        ("(?m)^a$", "a", "b"),
        ("{a}{,2}", "{a}{,2}", "a"),
    ],
)
def test_a_whole_name_matches_or_it_does_not(text: str, yes: str, no: str) -> None:
    pattern = compile(text)
    assert pattern.matches(yes)
    assert not pattern.matches(no)


@pytest.mark.parametrize(
    "text",
    ["(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "(a", "a)", "[a", "[b-a]", "*", "a**", "a{1001}", "a{3,2}", "\\"]
    + [r"\p{Klingon}", "[[:letters:]]", "(?P<a>b)(?P<a>c)", "(?x)a", r"\C", r"\Z", r"[\b]", "(?i-)", "a{*"],
)
def test_what_re2_does_not_know_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(InvalidExpression, match=r"\w+ \w+"):
        compile(text)


def test_letters_of_other_alphabets_that_are_cases_of_ascii_ones_count_where_case_is_ignored() -> None:
    assert compile("(?i)\u212a\u017f").matches("ks")
    assert not compile("\u212a").matches("k")


def test_a_name_that_no_topic_can_have_never_matches() -> None:
    assert not compile(".*").matches("caf\u00e9")


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", "(a+a+)+b", "(a?){200}a{200}b", "(.*.*.*.*)*b"])
def test_expressions_that_make_others_backtrack_for_ever_are_answered(text: str) -> None:
    assert not compile(text).matches("a" * 249)


def test_what_would_become_too_large_is_refused() -> None:
    assert compile("(a{100}){100}").matches("a" * 10_000)
    for text in ("(.{1000}){1000}", "(((){1000}){1000}){1000}", "(" * 3000 + "a" + "){1000}" * 3000):
        with pytest.raises(InvalidExpression, match="too large"):
            compile(text)


def test_groups_may_be_nested_deeply() -> None:
    assert compile("(" * 10_000 + "a" + ")" * 10_000).matches("a")


def test_a_single_character_that_visits_a_large_program_is_matched_in_steps() -> None:
    pattern = compile("(" + "|".join(f"(a|b{{0,20}}){{0,20}}x{index}" for index in range(40)) + ")*")
    steps = 0
    select = pattern.select(["a"])
    with contextlib.suppress(StopIteration):
        while True:
            next(select)
            steps += 1
    assert len(pattern._program.sets) > 30_000
    assert steps >= 6  # it visits some 9,000 places, and pauses after every 1,000


def test_names_are_selected_in_order_and_in_steps() -> None:
    names = [f"topic-{number}" for number in range(5000)]

    selected: list[str] = []

    def run() -> Generator[None, None, None]:
        nonlocal selected
        selected = yield from compile(r"topic-\d*7").select(names)

    count = sum(1 for _ in run())
    assert selected == names[7::10]
    assert count >= 5


def test_forgetting_what_was_remembered_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.groups.regex.pattern._KEPT_MAX", 10)
    pattern = compile(r"(a|b)*a(a|b){3}|\b\w+-\w+\b")
    reference = re.compile(r"(a|b)*a(a|b){3}|\b\w+-\w+\b")
    for number in range(512):
        name = f"{number:b}".replace("0", "a").replace("1", "b")
        for candidate in (name, f"{name}-{name}"):
            assert pattern.matches(candidate) == bool(reference.fullmatch(candidate))


@given(st.text(alphabet="ab01.-_()[]{}|*+?^$\\:,<>PpQEdwsbABzxiU\u017f", max_size=20), NAMES)
def test_no_text_does_worse_than_being_refused(text: str, name: str) -> None:
    with contextlib.suppress(InvalidExpression):
        assert compile(text).matches(name) in (True, False)


_ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "A",
        "0",
        ".",
        "-",
        "_",
        r"\.",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        "[ab]",
        "[^a]",
        "[a-z0-9]",
        r"[\d.]",
    ]
    + [r"[^\w]", r"\b", "^", "$", r"\A", "()", "(?i:a)", "(?:ab|b)", r"\x61"]
)
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@given(_EXPRESSIONS, st.lists(NAMES, min_size=1, max_size=5))
def test_what_python_knows_too_matches_the_same_names(text: str, names: list[str]) -> None:
    ours, reference = compile(text), re.compile(text, re.ASCII)
    for name in names:
        # Python's \B does not hold in an empty text, and its $ holds before a last newline: neither occurs.
        assert ours.matches(name) == bool(reference.fullmatch(name)), name
