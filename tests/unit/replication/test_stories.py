"""Diverging and converging logs, and the ways in which records were lost before leader epochs."""

from __future__ import annotations

from tests.unit.replication.world import LAG_MAX_MS, Broker, ModelLog, World

from ottla.replication.follower import truncation
from ottla.replication.leader import AcceptedChange


def write(broker: Broker, *values: int) -> None:
    for value in values:
        broker.partition.append(value, acks=1, now_ms=0)  # type: ignore[arg-type]


def fetch(world: World, node: int, rounds: int = 1, count: int = 10) -> None:
    broker = world.brokers[node]
    for _ in range(rounds):
        broker.ask()
        assert broker.fetch is not None, "it follows nobody"
        world.brokers[broker.fetch.leader_id].serve(node, broker.fetch, count)
        broker.finish()


def learn(world: World, *nodes: int) -> None:
    for node in nodes:
        broker = world.brokers[node]
        while broker.known is None or broker.known_at + 1 < len(world.history):
            world.deliver(broker)


def settle_isr(world: World, node: int) -> None:
    broker = world.brokers[node]
    leadership = broker.partition.leadership
    assert leadership is not None
    assert leadership.pending is not None
    proposal = leadership.pending
    answer = world.alter(broker, proposal)
    assert isinstance(answer, AcceptedChange), answer
    broker.partition.isr_change_accepted(proposal, answer)


def values(broker: Broker) -> list[int]:
    return [value for _, value in broker.log.records]


def test_a_follower_that_restarts_before_it_heard_of_the_watermark_keeps_what_was_acknowledged() -> None:
    """Truncated at its high watermark it would have lost the record, and then led without it."""
    world = World(count=2)
    leader, follower = world.brokers[1], world.brokers[2]
    write(leader, 11)
    fetch(world, 2)  # it has the record ...
    follower.ask()
    assert follower.fetch is not None
    leader.serve(2, follower.fetch, 10)  # ... and the leader knows, so it is acknowledged
    assert leader.log.high_watermark == 1
    assert follower.log.high_watermark == 0  # but the follower does not know yet
    world.kill(2, lost=0)
    world.restart(2)
    learn(world, 1, 2)
    assert values(follower) == [11]
    fetch(world, 2)
    settle_isr(world, 1)
    world.kill(1, lost=0)
    learn(world, 2)
    assert follower.partition.is_leader
    assert values(follower) == [11]


def test_replicas_that_both_lost_their_tails_do_not_keep_different_records_at_one_offset() -> None:
    """By their high watermarks nobody would have truncated anything: both were at 2."""
    world = World(count=2)
    first, second = world.brokers[1], world.brokers[2]
    write(first, 11, 12)
    fetch(world, 2, rounds=2)
    assert first.log.high_watermark == second.log.high_watermark == 2
    second.checkpoint = first.checkpoint = 2
    # Both fail at once, and the second one's disk had only the first record, which it had flushed.
    world.kill(1, lost=0)
    world.kill(2, lost=0)
    second.log.truncate_to(1)
    world.restart(2)
    learn(world, 2)
    assert second.partition.is_leader
    write(second, 99)
    world.restart(1)
    learn(world, 1, 2)
    assert values(first) == [11, 12]
    fetch(world, 1, rounds=3)
    assert values(first) == values(second) == [11, 99]


def test_an_old_leader_truncates_its_unreplicated_records() -> None:
    world = World(count=3)
    write(world.brokers[1], 1, 2)
    fetch(world, 2, rounds=2)
    fetch(world, 3, rounds=2)
    write(world.brokers[1], 3, 4)  # nobody else has these
    world.kill(1, lost=0)
    learn(world, 2, 3)
    write(world.brokers[2], 5)
    world.restart(1)
    learn(world, 1, 2, 3)
    fetch(world, 1, rounds=3)
    assert values(world.brokers[1]) == [1, 2, 5]
    assert world.brokers[1].log.epochs.entries == world.brokers[2].log.epochs.entries


def test_late_metadata_does_not_let_the_watermark_pass_a_replica_that_has_just_joined() -> None:
    """The leader's second proposal is in flight when metadata repeats the response to the first."""
    world = World(count=3)
    leader = world.brokers[1]
    leadership = leader.partition.leadership
    assert leadership is not None
    write(leader, 1, 2)
    fetch(world, 2, rounds=2)
    fetch(world, 3, rounds=2)
    write(leader, 3, 4, 5, 6)
    world.now_ms += LAG_MAX_MS + 1
    fetch(world, 2, rounds=2)
    assert leadership.shrinkage(leader.log.log_end_offset) is not None
    settle_isr(world, 1)
    assert leader.log.high_watermark == 6
    write(leader, 7, 8)
    fetch(world, 3, count=4)
    fetch(world, 3, count=0)  # it has everything committed, and joins
    assert leadership.pending is not None
    assert isinstance(world.alter(leader, leadership.pending), AcceptedChange)  # the response is in flight
    world.deliver(leader)  # and so was the first change
    fetch(world, 2, rounds=2)
    world.check()
    assert leader.log.high_watermark == 6


def log_of(*epochs: int) -> ModelLog:
    log = ModelLog()
    for value, epoch in enumerate(epochs):
        log.take(epoch, value)
    return log


def test_a_log_is_truncated_at_the_shorter_end_of_the_shared_epoch() -> None:
    assert truncation(log_of(1, 1, 1), 1, 2) == 2
    assert truncation(log_of(1, 1), 1, 5) == 2
    assert truncation(log_of(1, 2, 2), 1, 3) == 1


def test_an_unknown_leader_epoch_needs_another_round() -> None:
    """Fast elections: the follower wrote in epochs 1 and 3, the leader in 1 and 2."""
    follower, leader = log_of(1, 3, 3), log_of(1, 2, 2, 2)
    leader.assign_epoch_start_offset(4, 4)
    epoch, end_offset = leader.end_offset_for_epoch(3)
    assert (epoch, end_offset) == (2, 4)
    cut = truncation(follower, epoch, end_offset)
    assert cut == 1
    follower.truncate_to(cut)
    assert leader.end_offset_for_epoch(follower.epochs.latest_epoch) == (1, 1)  # they agree below 1


def test_a_follower_with_only_older_epochs_truncates_to_the_leaders_start() -> None:
    assert truncation(log_of(5, 5), 3, 1) == 0
    assert truncation(log_of(), 3, 1) == 0
