"""Error handling of every `ottla` command: a failure is one line with the cause and the remedy.

Rule: no traceback reaches a user. Failures exit with 1, usage errors with 2, Ctrl-C with 130; a closed pipe
(`| head`) exits silently with 141, as SIGPIPE would. OTTLA_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

FAILED = 1
MISUSED = 2
INTERRUPTED = 130
UNREAD = 141

# The minimum similarity of a suggested name, from 0 to 1, and its maximum distance from the best one.
_NEAR = 0.6
_AS_NEAR = 0.1


class Problem(Exception):
    """The command failed; the message gives cause and remedy. Exit code 1."""

    exit_code = FAILED


class Misuse(Problem):
    """A usage error; exit code 2."""

    exit_code = MISUSED


def unknown(kind: str, name: str, known: Iterable[str], *, cure: str = "") -> Problem:
    """The problem of an unknown name, with similar names or else a hint at the command that lists them."""
    hint = near_names(name, known) or cure
    return Problem(f"There is no {kind} {name}.{' ' + hint if hint else ''}")


def near_names(name: str, known: Iterable[str]) -> str:
    """ "Did you mean a or b?" for an unknown name, or nothing if no known name is similar."""
    import difflib

    by_lower = {one.lower(): one for one in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.lower(), sorted(by_lower), n=3, cutoff=_NEAR)
    ratios = [difflib.SequenceMatcher(None, one, name.lower()).ratio() for one in near]
    chosen = [by_lower[one] for one, ratio in zip(near, ratios, strict=True) if ratio > ratios[0] - _AS_NEAR]
    return f"Did you mean {' or '.join(chosen)}?" if chosen else ""


def finish(work: Callable[[], int], *, servers: Callable[[], str] = str) -> int:
    """Run the work of a command, report its error, and return the exit code.

    `servers` returns the bootstrap servers, for connection errors.
    """
    try:
        code = work()
        sys.stdout.flush()
        if code == INTERRUPTED and sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal shows ^C: put the prompt on a new line
        return code
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Click raises this for a closed pipe
            return UNREAD
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:
        # Python would flush the rest of the buffer at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("OTTLA_DEBUG", "") not in ("", "0"):
            raise
        return report(error, servers)


def report(error: Exception, servers: Callable[[], str] = str) -> int:
    """Print an error as one line and return the exit code."""
    sentence, code = explain(error, servers)
    try:
        print(f"ottla: {sentence}", file=sys.stderr)
    except BrokenPipeError:
        return FAILED
    return code


def explain(error: Exception, servers: Callable[[], str] = str) -> tuple[str, int]:
    """The sentence and the exit code of an error."""
    if isinstance(error, Problem):
        return str(error), error.exit_code
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return _usage_sentence(error, usage()), getattr(error, "exit_code", MISUSED)
    if type(error).__name__ == "Abort":
        return "Aborted; nothing was changed.", FAILED
    if _is_failure_of_a_tool(error):
        return _sentence(str(error)), FAILED
    known = _client_sentence(error, servers)
    if known is not None:
        return known, FAILED
    if isinstance(error, OSError):
        return _os_sentence(error), FAILED
    return (
        f"Bug in Ottla: {type(error).__name__}: {_one_line(str(error))}. Please report it; OTTLA_DEBUG=1 "
        "shows the traceback.",
        FAILED,
    )


def _usage_sentence(error: Exception, message: str) -> str:
    context = getattr(error, "ctx", None)
    cure = f" Try: {context.command_path} --help" if context is not None else ""
    return f"{_sentence(message)}{cure}"


def _is_failure_of_a_tool(error: Exception) -> bool:
    """Whether the error comes from code shared with the Kafka-named tools."""
    module = sys.modules.get("ottla.operations.failure")
    return module is not None and isinstance(error, module.Failure)


def _client_sentence(error: Exception, servers: Callable[[], str]) -> str | None:
    # A module that is not imported cannot have raised the error: commands without a cluster save the import.
    if "ottla.client.errors" not in sys.modules and "ottla.wire.errors" not in sys.modules:
        return None
    from ottla.client import errors as client
    from ottla.wire.errors import KafkaError

    if isinstance(error, KafkaError):
        cause = error.message or error.code.name.replace("_", " ").lower().capitalize()
        return f"{_sentence(cause)}{_cure_of(error.code.name)}"
    if isinstance(error, client.AuthenticationFailed):
        return f"{_sentence(str(error))} Check the sasl settings of the profile (ottla profile show)."
    if isinstance(error, client.TlsFailed):
        return f"{_sentence(str(error))} Check the ssl settings of the profile (ottla profile show)."
    if isinstance(error, (client.TimedOut, client.Disconnected, client.ProtocolMismatch)):
        where = f" Tried {servers()}; use -b HOST:PORT for another cluster." if servers() else ""
        return f"{_sentence(str(error))}{where}"
    return _sentence(str(error)) if isinstance(error, client.ClientError) else None


_CURES = {
    "UNKNOWN_TOPIC_OR_PARTITION": "List topics with: ottla topic list",
    "TOPIC_ALREADY_EXISTS": "Change it with: ottla topic alter",
    "GROUP_ID_NOT_FOUND": "List groups with: ottla group list",
    "NON_EMPTY_GROUP": "Stop its members first; list them with: ottla group describe",
    "TOPIC_AUTHORIZATION_FAILED": "The user is not authorized for this operation on the topic.",
    "GROUP_AUTHORIZATION_FAILED": "The user is not authorized for this operation on the group.",
    "CLUSTER_AUTHORIZATION_FAILED": "The user is not authorized for this operation on the cluster.",
    "UNSUPPORTED_VERSION": "The brokers do not support an API that the command needs.",
    "TRANSACTIONAL_ID_NOT_FOUND": "List transactions with: ottla txn list",
    "INVALID_REPLICATION_FACTOR": "List brokers with: ottla cluster describe",
    "SECURITY_DISABLED": "To use ACLs, set authorizer.class.name on the brokers.",
}


def _cure_of(code_name: str) -> str:
    cure = _CURES.get(code_name, "")
    return f" {cure}" if cure else ""


def _os_sentence(error: OSError) -> str:
    if error.filename:
        return f"Cannot use {error.filename}: {error.strerror}."
    return _sentence(error.strerror or str(error))


def _sentence(text: str) -> str:
    """One line that ends with a full stop."""
    line = _one_line(text)
    return line if line.endswith((".", "?", "!")) else f"{line}."


def _one_line(text: str) -> str:
    return " ".join(text.split())
