"""Our acls beside Kafka's: on a Kafka that has an authorizer, and on nodes without one.

Kafka's tool prints resources and rules in the order of its hash tables, which no two runs share: blocks, and
the lines of each, are compared sorted.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.tools import acls
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.same import OURS, THEIRS, Tool, ours, theirs

ACLS = Tool("org.apache.kafka.tools.AclCommand", acls.main)
SAME = [
    # One that stays, then what is there.
    "--add --allow-principal User:ann --operation Read --topic %-orders",
    "--add --allow-principal User:ann --operation Read --topic %-orders",
    "--add --allow-principal User:ann --allow-principal User:ben --operation read --operation WRITE"
    " --topic %-orders --topic %-bills",
    "--add --deny-principal User:eve --deny-host 10.0.0.1 --deny-host=10.0.0.2 --allow-principal User:*"
    " --allow-host 10.0.0.3 --group %-readers",
    "--add --allow-principal User:ann --operation DescribeConfigs --operation ALTERCONFIGS --topic %-set",
    "--add --allow-principal User:ann --resource-pattern-type prefixed --topic %-ord --group %-re",
    "--add --allow-principal User:%-root --cluster",
    "--add --allow-principal User:%-root --operation ClusterAction --cluster --force",
    "--add --allow-principal User:ann --transactional-id %-id --operation TwoPhaseCommit",
    "--add --allow-principal User:ann --delegation-token %-token --operation Describe",
    "--add --allow-principal User:ann --user-principal User:%-ben --operation CreateTokens",
    "--add --allow-principal User:ann --producer --topic %-p1 --topic %-p2",
    "--add --allow-principal User:ann --producer --topic %-p1 --transactional-id %-ids",
    "--add --allow-principal User:%-ann --producer --idempotent --topic %-p1",
    "--add --allow-principal User:ann --consumer --topic %-c1 --group %-g1",
    "--add --allow-principal User:ann --allow-host 127.0.0.1 --producer --consumer --topic %-both"
    " --group %-g2 --transactional-id %-t2",
    "--add --allow-principal User:ann --resource-pattern-type PREFIXED --producer --topic %-pre",
    "--add --allow-principal Group:a:b:c --operation All --topic %-colons",
    # Listed by resource, by pattern, by principal.
    "--list --topic %-orders",
    "--list --topic %-orders --resource-pattern-type match",
    "--list --topic %-orders --resource-pattern-type any",
    "--list --topic %-ord --resource-pattern-type prefixed",
    "--list --topic %-orders --topic %-bills --group %-readers",
    "--list --topic %-orders --principal User:ann --principal User:nobody",
    "--list --topic %-p1 --topic %-both --principal",
    "--list --transactional-id %-id --delegation-token %-token --user-principal User:%-ben",
    "--list --group %-g1 --group %-g2",
    "--list --topic %-nothing",
    "--list --topic %-orders --command-config CLIENT",
    "--list --topic %-orders --command-config",
    # Removed.
    "--remove --force --allow-principal User:ben --operation Read --topic %-orders",
    "--list --topic %-orders",
    "--remove --force --topic %-bills",
    "--remove --force --allow-principal User:ann --producer --topic %-p1 --transactional-id %-ids",
    "--remove --force --topic %-orders --resource-pattern-type match",
    "--remove --force --allow-principal User:%-ann --operation IdempotentWrite --cluster",
    "--remove --force --allow-principal User:nobody --topic %-c1",
    "--list --topic %-orders --topic %-bills --topic %-p1 --transactional-id %-ids",
]
AT_CONTROLLER = [
    "--add --allow-principal User:ann --operation Read --topic %-seen",
    "--list --topic %-seen",
    "--remove --force --topic %-seen",
    "--list --topic %-seen",
]
FAILING = [
    "--add --allow-principal ann --topic words",
    "--add --allow-principal User:ann --topic words --resource-pattern-type some",
    "--add --allow-principal User:ann --topic words --resource-pattern-type unknown",
    "--list --topic words --resource-pattern-type nothing",
    "--list --principal nobody",
    "--list --topic words --command-config /nowhere",
    "--add --allow-principal User:ann --topic=",
]
REFUSED = [
    "",
    "--help",
    "--list",
    "--bootstrap-server BROKER",
    "--bootstrap-server BROKER --bootstrap-controller BROKER --list",
    "--bootstrap-server BROKER --list --add",
    "--bootstrap-server BROKER --list --producer --topic words",
    "--bootstrap-server BROKER --list --allow-principal User:ann",
    "--bootstrap-server BROKER --list --nothing",
    "--bootstrap-server BROKER --add --allow-principal User:ann",
    "--bootstrap-server BROKER --add --topic words",
    "--bootstrap-server BROKER --add --topic words --allow-host 10.0.0.1",
    "--bootstrap-server BROKER --add --topic",
    "--bootstrap-server BROKER --add --allow-principal User:ann --topic words --operation Fly",
    "--bootstrap-server BROKER --add --allow-principal User:ann --group words --operation Write",
    "--bootstrap-server BROKER --add --allow-principal User:ann --topic a --resource-pattern-type match",
    "--bootstrap-server BROKER --add --allow-principal User:ann --cluster --resource-pattern-type prefixed",
    "--bootstrap-server BROKER --add --allow-principal User:ann --topic a --principal User:ann",
    "--bootstrap-server BROKER --add --allow-principal User:ann --producer",
    "--bootstrap-server BROKER --add --allow-principal User:ann --producer --topic a --operation Read",
    "--bootstrap-server BROKER --add --allow-principal User:ann --idempotent --topic a",
    "--bootstrap-server BROKER --add --allow-principal User:ann --consumer --topic a",
    "--bootstrap-server BROKER --add --allow-principal User:ann --consumer --topic a --group b --cluster",
    "--bootstrap-server BROKER --add --deny-principal User:ann --consumer --topic a --group b",
    "--bootstrap-server BROKER --remove --force",
]
WITHOUT_AUTHORIZER = [
    "--list",
    "--list --topic words --principal User:ann",
    "--add --allow-principal User:ann --topic words",
    "--remove --force --topic words",
    "--remove --force --allow-principal User:ann --topic words",
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[peers.BrokerProcess]:
    """A Kafka with its authorizer, which lets everybody who does not log in do everything."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with peers.running(
        "kafka", properties={"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    ) as running:
        yield running


def blocks(ran: Ran) -> list[list[str]]:
    """What was printed, in parts that an empty line ends, without Java's traces."""
    found: list[list[str]] = []
    for part in ran.out.replace(OURS, "%").replace(THEIRS, "%").split("\n\n"):
        lines = []
        for line in part.splitlines():
            if line.startswith("Error while executing"):
                return sorted([*found, [line]])
            if line.endswith("already exists.") or line.startswith(("ACLs for principal", "Did not load")):
                found.append([line])
            else:
                lines.append(line.strip())
        found.append(lines[:1] + sorted(lines[1:]))
    return sorted(found)


def both(tools: Tools, where: list[str], line: str, directory: Path) -> tuple[Ran, Ran]:
    client = directory / "client.properties"
    client.write_text("client.id=mine\n")
    words = [str(client) if word == "CLIENT" else word for word in line.split()]
    arguments = [*where, *words]
    return theirs(tools, ACLS, arguments), ours(ACLS, arguments)


def check_same(tools: Tools, where: list[str], lines: list[str], directory: Path) -> None:
    """The lines build on each other: what one adds another lists and removes."""
    for line in lines:
        their, our = both(tools, where, line, directory)
        if line.startswith("--list") and blocks(our) != blocks(their):
            # A broker hears of a change a moment after the controller has answered.
            peers.wait_until(
                lambda line=line: len({str(blocks(ran)) for ran in both(tools, where, line, directory)}) == 1,  # type: ignore[misc]
                60,
                f"the same output of {line}; ours: {our}, theirs: {their}",
            )
        else:
            assert (our.exit, our.err) == (0, ""), line
            assert their.exit == 0, (line, their)
            assert blocks(our) == blocks(their), line
        if line.startswith("--add"):
            added = set(re.findall(r"\(principal=.*?\)", our.out + their.out))
            peers.wait_until(
                lambda added=added: all(rule in ours(ACLS, [*where, "--list"]).out for rule in added),  # type: ignore[misc]
                60,
                f"a listing of what {line} added",
            )


def test_both_print_the_same(tools: Tools, guarded: peers.BrokerProcess, tmp_path: Path) -> None:
    check_same(tools, ["--bootstrap-server", guarded.bootstrap], SAME, tmp_path)


def test_both_print_the_same_of_a_controller(
    tools: Tools, guarded: peers.BrokerProcess, tmp_path: Path
) -> None:
    where = ["--bootstrap-controller", f"127.0.0.1:{guarded.controller_port}"]
    check_same(tools, where, AT_CONTROLLER, tmp_path)


def test_both_tell_the_same_failures(tools: Tools, guarded: peers.BrokerProcess, tmp_path: Path) -> None:
    for line in FAILING:
        their, our = both(tools, ["--bootstrap-server", guarded.bootstrap], line, tmp_path)
        assert our.exit == their.exit == 1, (line, our, their)
        assert our.err == ""
        if "/nowhere" in line:  # Java says the name alone
            assert our.out.startswith("Error while executing ACL command: /nowhere")
        else:
            assert blocks(our) == blocks(their), line


def test_both_refuse_the_same(tools: Tools, guarded: peers.BrokerProcess) -> None:
    for line in REFUSED:
        arguments = [guarded.bootstrap if word == "BROKER" else word for word in line.split()]
        their, our = theirs(tools, ACLS, arguments), ours(ACLS, arguments)
        assert our.exit == their.exit == 1, (line, our, their)
        assert our.out == their.out == "", line
        # Lists of operations come in an order of their own.
        first, its = (ran.err.splitlines()[0].partition("[") for ran in (our, their))
        if "only supports operations" in first[0]:
            assert sorted(first[2].strip("]").split(", ")) == sorted(its[2].strip("]").split(", ")), line
            assert first[0] == its[0], line
        else:
            assert first == its, line


@pytest.mark.parametrize("line", WITHOUT_AUTHORIZER)
@pytest.mark.parametrize("role", ["server", "controller"])
def test_both_tell_that_there_is_no_authorizer(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path, line: str, role: str
) -> None:
    port = broker.port if role == "server" else broker.controller_port
    their, our = both(tools, [f"--bootstrap-{role}", f"127.0.0.1:{port}"], line, tmp_path)
    assert our.exit == their.exit == 1
    assert our.err == ""
    assert blocks(our) == blocks(their)
    assert "SecurityDisabledException: No Authorizer is configured" in our.out


def test_it_asks_before_it_removes(guarded: peers.BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's own reads a terminal only, so it cannot be asked here."""
    where = ["--bootstrap-server", guarded.bootstrap]
    ours(ACLS, [*where, "--add", "--allow-principal", "User:ann", "--topic", "asked"])
    removing = [*where, "--remove", "--topic", "asked"]
    listing = [*where, "--list", "--topic", "asked"]

    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    asked = ours(ACLS, removing)
    assert asked.exit == 0
    assert asked.out == (
        "Are you sure you want to delete all ACLs for resource filter"
        " `ResourcePattern(resourceType=TOPIC, name=asked, patternType=LITERAL)`? (y/n)\n"
    )
    peers.wait_until(lambda: "User:ann" in ours(ACLS, listing).out, 60, "the rule to be listed")

    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    unanswered = ours(ACLS, removing)
    assert (unanswered.exit, unanswered.err) == (1, "")
    assert unanswered.out.endswith("use --force when not on a terminal.\n")
    assert "User:ann" in ours(ACLS, listing).out

    monkeypatch.setattr(sys, "stdin", io.StringIO("Y\n"))
    only_hers = ours(ACLS, [*removing, "--allow-principal", "User:ann"])
    assert only_hers.out.startswith("Are you sure you want to remove ACLs: \n \t(principal=User:ann, host=*,")
    peers.wait_until(lambda: ours(ACLS, listing).out == "", 60, "the rule to be gone")
