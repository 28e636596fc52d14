"""Finds a Java for Spark, and starts a local session on it.

Spark 4 needs Java 17 or newer. Rule: if Java is missing, one line says what to install, before Spark's
launcher starts and prints twenty.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOMES = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/Library/Java/JavaVirtualMachines")


def find_java() -> str:
    """Look for Java 17 or newer: in JAVA_HOME, on the PATH, then in the usual system directories."""
    seen: list[str] = []
    for program in _candidates():
        version = _version(program)
        if version is not None and version >= OLDEST:
            return program
        seen.append(f"{program} is version {version}" if version is not None else f"{program} failed to run")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise SparkMissing(
        f"Spark needs Java {OLDEST} or newer, but none was found{found}. To fix this, {_cure()}."
    )


def _candidates() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield on_path
    for directory in _HOMES:
        for pattern in ("*/bin/java", "*/Contents/Home/bin/java"):
            yield from sorted((str(found) for found in Path(directory).glob(pattern)), reverse=True)


def _version(program: str) -> int | None:
    try:
        version = subprocess.run(
            [program, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(version.stderr + version.stdout)
    return int(match[1]) if match and not version.returncode else None


_PACKAGES = (
    ("apt-get", ("apt-get", "install", "-y", "openjdk-17-jre-headless")),
    ("apt-get", ("apt-get", "install", "-y", "default-jre-headless")),
    ("dnf", ("dnf", "install", "-y", "java-17-openjdk-headless")),
    ("apk", ("apk", "add", "openjdk17-jre-headless")),
    ("brew", ("brew", "install", "openjdk@17")),
)


def _cure() -> str:
    for tool, command in _PACKAGES:
        if shutil.which(tool):
            return f"install it with `{' '.join(part for part in command if part != '-y')}`, or set JAVA_HOME"
    return "install OpenJDK 17, or set JAVA_HOME"


def install_java(report: Callable[[str], None]) -> str:
    """Return a Java for Spark. If there is none, install it from the system's packages, if this user may."""
    try:
        return find_java()
    except SparkMissing:
        before = _right_to_install()
        if before is None:
            raise
    for tool, command in _PACKAGES:
        if shutil.which(tool):
            report(f"Java not found, running: {' '.join((*before, *command))}")
            if not subprocess.run([*before, *command], capture_output=True, check=False).returncode:
                break
    return find_java()


def _right_to_install() -> tuple[str, ...] | None:
    """The prefix of an install command (such as sudo); None if this user may not install packages."""
    if os.geteuid() == 0 or shutil.which("brew"):
        return ()
    sudo = shutil.which("sudo")
    if sudo and not subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode:
        return (sudo, "-n")
    return None


_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_UNIX_SOCKETS_VARIABLE = "PYSPARK_UDS_MODE"  # Spark's own, for the same choice


def session_settings(master: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with which a session starts. On one machine, rows go between Python and the JVM through
    Unix sockets unless the user chose otherwise: TCP costs more CPU, above all if its congestion control is
    one that paces (BBR).
    """
    chosen = dict(settings)
    is_local = master.startswith("local") if master is not None else "SPARK_REMOTE" not in os.environ
    if is_local and hasattr(socket, "AF_UNIX") and _UNIX_SOCKETS_VARIABLE not in os.environ:
        chosen.setdefault(_UNIX_SOCKETS, "true")
    return chosen


def session(name: str, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    """Return the active session, or start one on the Java that was found."""
    program = Path(find_java()).resolve()
    if program.parent.name == "bin":  # Spark's launcher reads JAVA_HOME first
        os.environ["JAVA_HOME"] = str(program.parent.parent)
    if master is None or master.startswith("local"):  # other machines lack this path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in session_settings(master, settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
