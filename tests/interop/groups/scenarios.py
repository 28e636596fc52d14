"""The scenarios of a group, and their expected events. Each runs for every client that supports it.

Besides a scenario's own assertions, `Group.finish` checks the merged logs of all members: one owner at a
time, every record delivered, no record skipped, every owner started exactly at the group's commit.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.interop.groups.harness import CLIENTS, Client, Group, World, group
from tests.interop.groups.ledger import At

_PAUSE_MS = 11_000
_SHORT_POLL_MS = 5000


def scale(world: World, client: Client) -> str:
    """1 -> 5 -> 2 members while records come in, then nobody for a while, then somebody else."""
    with group(world, client, "scale") as here:
        here.add_topic(partitions=7)
        here.start("1")
        here.wait_shared_out()
        here.wait_records("1", 3)
        here.start("2", "3", "4", "5")
        here.wait_shared_out()
        here.wait_records("5", 3)
        here.close("1", "3", "4")
        here.wait_shared_out()
        here.wait_records("2", 3)
        here.close("2", "5")
        here.start("6")
        here.wait_shared_out()
        here.wait_records("6", 3)
        here.finish()
        return here.ledger.figures()


def static_restart(world: World, client: Client) -> str:
    """A static member that returns in time gets its partitions again, without a rebalance of the others."""
    with group(world, client, "static", session_ms=15_000) as here:
        here.add_topic(partitions=6)
        here.start("1", instance="one")
        here.start("2", instance="two")
        here.start("3", instance="three")
        here.wait_shared_out_evenly()
        here.wait_records("2")
        owned = here.owned("2")
        before = len(_moves(here))
        here.close("2")
        here.start("2 again", instance="two")
        here.wait_shared_out_evenly()
        here.wait_records("2 again", 3)
        assert here.owned("2 again") == owned
        others = [move for move in _moves(here)[before:] if not move["member"].endswith(("/2", "/2 again"))]
        assert not others, f"the others were moved: {others}"
        here.finish()
        return here.ledger.figures()


def cooperative(world: World, client: Client) -> str:
    """Only partitions that change owners are revoked."""
    with group(world, client, "cooperative", assignor=client.cooperative_assignor) as here:
        here.add_topic(partitions=6)
        here.start("1")
        here.wait_shared_out_evenly()
        here.start("2")
        here.wait_shared_out_evenly()
        kept = here.owned("1")
        assert len(kept) == 3
        here.start("3")
        here.wait_shared_out_evenly()
        assert len(here.owned("1") & kept) == 2
        here.wait_records("3", 2)
        here.close("2")
        here.wait_shared_out_evenly()
        _assert_nothing_moved_in_vain(here)
        here.finish()
        return here.ledger.figures()


def regex(world: World, client: Client) -> str:
    """A pattern matches existing and later topics, and nothing else."""
    base = world.new_name(f"pattern-{client.name}")
    with group(world, client, "regex", pattern=f"^{base}[.](red|green)$") as here:
        here.add_topic(f"{base}.red", partitions=3)
        here.add_topic(f"{base}.blue", partitions=1, is_consumed=False)
        here.start("1", "2")
        here.wait_shared_out()
        here.add_topic(f"{base}.green", partitions=3)
        here.wait_shared_out()
        here.wait_records("1", 2)
        here.finish()
        return here.ledger.figures()


def kill(world: World, client: Client) -> str:
    """kill -9 of a member: after its session its partitions go to the others."""
    with group(world, client, "kill") as here:
        here.add_topic(partitions=6)
        here.start("1")
        victim = here.start_victim("2")
        here.wait_shared_out()
        here.wait_records("2", 5)
        assert here.owned("2")
        victim.kill()
        here.wait_shared_out()
        here.wait_records("1", 3)
        here.finish()
        return here.ledger.figures()


def pause(world: World, client: Client) -> str:
    """A member that stops polling for too long is removed, cannot commit any more, and may rejoin."""
    given = {"max_poll_ms": _SHORT_POLL_MS, "session_ms": _SHORT_POLL_MS}
    with group(world, client, "pause", **given) as here:
        here.add_topic(partitions=6)
        here.start("1", "2")
        here.wait_shared_out()
        here.pause("1", _PAUSE_MS)
        here.wait(lambda: here.ledger.events("paused"), "the pause")
        here.start(
            "3"
        )  # a member that joins is what makes a client without a poll interval of its own miss something
        here.wait_shared_out(leaving_out=("1",))
        assert not here.ledger.events("resumed"), (
            "the others had everything before the paused member came back"
        )
        here.wait(lambda: here.ledger.events("resumed"), "the end of the pause")
        here.wait_shared_out()
        here.wait_records("1", 2)
        here.finish()
        return here.ledger.figures()


def churn(world: World, client: Client) -> str:
    """Members join and leave while others still do, before the assignment completes."""
    with group(world, client, "churn") as here:
        here.add_topic(partitions=8)
        choose = Random(client.name)
        staying: list[str] = []
        for step in range(14):
            if len(staying) < 2 or (len(staying) < 6 and choose.random() < 0.6):
                here.start(str(step))
                staying.append(str(step))
                here.wait(lambda: here.owned(staying[-1]), "the first partition")
            else:
                here.close(staying.pop(choose.randrange(len(staying))))
        here.wait_shared_out()
        here.wait_records(staying[0], 2)
        here.finish()
        return here.ledger.figures()


def differing(world: World, client: Client) -> str:
    """Members with different subscriptions, one topic of which grows: nobody gets other topics."""
    with group(world, client, "differing") as here:
        one = here.add_topic(world.new_name("one"), partitions=3)
        both = here.add_topic(world.new_name("both"), partitions=4)
        here.start("1", topics=[one, both])
        here.start("2", topics=[both])
        here.wait_shared_out()
        here.grow_topic(both, 6)
        here.wait_shared_out()
        here.start("3", topics=[both])
        here.wait_shared_out()
        here.wait_records("3")
        assigned = [event for event in _moves(here) if not event["member"].endswith("/1")]
        assert {topic for event in assigned for topic, _ in event["partitions"]} == {both}
        here.finish()
        return here.ledger.figures()


def twins(world: World, client: Client) -> str:
    """Two static members with the same id: the old one is fenced (classic), or the new one refused
    (consumer)."""
    with group(world, client, "twins") as here:
        here.add_topic(partitions=2)
        here.start("old", instance="one")
        here.wait_shared_out()
        here.start("new", instance="one")
        winner, loser = ("new", "old") if client.protocol == "classic" else ("old", "new")
        here.wait_failure(loser, "fenced" if loser == "old" else "unreleased|still used")
        here.wait_owns_all(winner)
        world.writer.stop(here.topics)
        here.dismiss("old", "new")
        return here.ledger.figures()


def everyone(world: World, protocol: str) -> str:
    """Members of all clients in one group."""
    clients = [client for client in CLIENTS if client.protocol == protocol]
    with group(world, clients[0], f"everyone-{protocol}", assignor="range") as here:
        here.add_topic(partitions=2 * len(clients))
        for client in clients:
            here.start(client.name, client=client)
        here.wait_shared_out()
        for client in clients:
            here.wait_records(client.name)
        here.close(clients[0].name)
        here.wait_shared_out()
        here.finish()
        return here.ledger.figures()


def upgrade(world: World, host: str, assignor: str | None = None) -> str:
    """A live group migrates from the classic protocol to the consumer protocol and back, member by member."""
    speaking = {client.protocol: client for client in CLIENTS if client.host == host}
    given: dict[str, Any] = {"assignor": assignor} if assignor else {}
    with group(world, speaking["classic"], f"upgrade-{assignor or 'default'}") as here:
        here.add_topic(partitions=6)
        here.start("1", "2", "3", **given)
        here.wait_shared_out()
        assert _type_of(here) == "CLASSIC"
        for name in ("1", "2", "3"):
            here.close(name)
            here.start(f"{name} upgraded", client=speaking["consumer"])
            here.wait_shared_out()
            here.wait_records(f"{name} upgraded")
            assert _type_of(here) == "CONSUMER"
        for name in ("1", "2", "3"):
            here.close(f"{name} upgraded")
            here.start(f"{name} again", client=speaking["classic"], **given)
            here.wait_shared_out()
            here.wait_records(f"{name} again")
        assert _type_of(here) == "CLASSIC"
        # A classic member can be an epoch behind its consumer group: when that becomes a classic group again,
        # its next heartbeat carries a generation that is over.
        here.finish(may_lose=True)
        return here.ledger.figures()


SCENARIOS: dict[str, Callable[[World, Client], str]] = {
    each.__name__: each
    for each in (regex, pause, kill, churn, scale, differing, static_restart, twins, cooperative)
}


def takes_part(scenario: str, client: Client) -> bool:
    if scenario == "static_restart" and client.name == "franz-go-consumer":
        return False  # it leaves its instance id out of its last heartbeat, which a broker must refuse
    if scenario == "twins" and client.name == "aiokafka":
        return False  # it heartbeats and commits without its instance id, so that twins push each other out
    return scenario != "cooperative" or client.is_cooperative


def _moves(here: Group) -> list[dict[str, Any]]:
    return [event for event in here.ledger.events("assigned", "revoked", "lost") if event["partitions"]]


def _type_of(here: Group) -> str:
    listed = here.world.admin.list_consumer_groups().result(30).valid
    return next(str(each.type.name) for each in listed if each.group_id == here.name)


def _assert_nothing_moved_in_vain(here: Group) -> None:
    last_owner: dict[At, object] = {}
    for event in here.ledger.events("assigned"):
        for topic, partition in event["partitions"]:
            at = (topic, partition)
            assert last_owner.get(at) != event["member"], f"{at} was taken from {event['member']} in vain"
            last_owner[at] = event["member"]
