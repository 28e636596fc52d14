"""A command line run by Kafka's tool and by ours, on the same cluster, and what each left compared.

Both see topics and groups of their own where a command changes something: "%" in a command line stands for
a text that only one of the two uses, of one length, and is masked in what they print.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from tests.interop.groups_tool.runner import Ran, Tools

THEIRS, OURS = "java", "ours"
PATIENCE_SECONDS = 20
_LOOKS = {"--list", "--describe"}
_ID = re.compile(r"TopicId: \S{22}")
_LOG_LINE = re.compile(r"^\d\d:\d\d:\d\d[.,]\d+ |^\[\d{4}-|^\[main\]|^SLF4J|^log4j")
# Java's traces beside a line on standard output say nothing that the line does not say.
_TRACE_LINE = re.compile(
    _LOG_LINE.pattern + r"|^\s+at |^\s+\.\.\. |^Caused by: |^[a-z]\w*(\.\w+)+(\$\w+)?(Exception|Error)\b"
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of Kafka's by its class, and ours by its function."""

    main_class: str
    main: Callable[[Sequence[str]], int]
    only_looks: bool = False


def ours(tool: Tool, arguments: Sequence[str]) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = tool.main([argument.replace("%", OURS) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def theirs(tools: Tools, tool: Tool, arguments: Sequence[str]) -> Ran:
    return tools.run(tool.main_class, *(argument.replace("%", THEIRS) for argument in arguments))


def shown(ran: Ran) -> tuple[int, str, bool]:
    """Exit code, standard output, and whether standard error is empty."""
    out = _ID.sub("TopicId: (id)", ran.out).replace(OURS, "%").replace(THEIRS, "%")
    unsaid = _TRACE_LINE if ran.out.strip() else _LOG_LINE
    said = [line for line in ran.err.splitlines() if line.strip() and not unsaid.match(line)]
    kept = "\n".join(line for line in out.split("\n") if not _LOG_LINE.match(line))
    return ran.exit, kept, bool(said)


def check_same(tools: Tools, tool: Tool, lines: Sequence[Sequence[str]]) -> None:
    """Run each line by both: the same code and output, and both or neither record_error on standard error.

    A line that only looks is run again where they differ: a broker may hear of the last change a bit later.
    """
    different = []
    for arguments in lines:
        looks = tool.only_looks or _LOOKS & set(arguments)
        deadline = time.monotonic() + (PATIENCE_SECONDS if looks else 0)
        while True:
            their, our = theirs(tools, tool, arguments), ours(tool, arguments)
            assert "Traceback" not in our.err, our.err
            if shown(our) == shown(their):
                break
            if time.monotonic() > deadline:
                different.append(f"{' '.join(arguments)}\n  ours:   {our}\n  theirs: {their}")
                break
    assert not different, "\n".join(different)
