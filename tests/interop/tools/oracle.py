"""Asks Kafka's own classes about settings and formatting, through the Java programs beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.interop import peers

_HERE = Path(__file__).parent


def ask(program: str, question: Any, *arguments: str) -> Any:
    """The answer of one JVM to a question in JSON."""
    classes = peers.javac_compile([_HERE / f"{program}.java"])
    result = peers.java_run(program, *arguments, classes=classes, input=json.dumps(question).encode())
    return json.loads(result.stdout)
