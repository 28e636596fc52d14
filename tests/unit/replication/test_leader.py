"""The ISR and the high watermark."""

from __future__ import annotations

import pytest
from tests.unit.replication.world import LAG_MAX_MS, BrokerStatus

from ottla.replication.leader import AcceptedChange, Leadership, Proposal, ReadableReplica
from ottla.replication.selector import nearest_replica
from ottla.wire.errors import ErrorCode, NotLeaderOrFollower, UnknownLeaderEpoch


class Around:
    node_id = 1
    broker_epoch = 10
    lag_max_ms = LAG_MAX_MS

    def __init__(self) -> None:
        self.ms = 5000
        self.brokers = {1: BrokerStatus(10), 2: BrokerStatus(20), 3: BrokerStatus(30)}

    def now_ms(self) -> int:
        return self.ms


class Led:
    """A partition that node 1 leads."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), end_offset: int = 0, minimum: int = 1) -> None:
        self.around = Around()
        self.leadership = Leadership(self.around)
        self.leadership.min_insync_replicas = minimum
        self.end_offset = end_offset
        self.take(isr)

    def take(self, isr: tuple[int, ...], *, leader_epoch: int = 4, partition_epoch: int = 7) -> None:
        self.leadership.take(
            replicas=(1, 2, 3),
            isr=isr,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            end_offset=self.end_offset,
        )

    def fetch(self, node: int, offset: int, *, epoch: int | None = None, log_start: int = 0) -> bool:
        progress = self.leadership.follower(node, names_epoch=True)
        return self.leadership.fetched(
            progress,
            node,
            offset=offset,
            log_start_offset=log_start,
            leader_end_offset=self.end_offset,
            broker_epoch=node * 10 if epoch is None else epoch,
        )

    def watermark(self) -> int | None:
        return self.leadership.high_watermark(self.end_offset)


def test_the_watermark_is_the_smallest_end_in_the_isr() -> None:
    led = Led(end_offset=10)
    assert led.watermark() == -1  # nobody has fetched: it does not move
    led.fetch(2, 8)
    led.fetch(3, 9)
    assert led.watermark() == 8
    led.fetch(2, 10)
    assert led.watermark() == 9


def test_an_out_of_sync_replica_holds_the_watermark_only_if_caught_up() -> None:
    led = Led(isr=(1, 2), end_offset=10)
    led.fetch(2, 10)
    led.fetch(3, 4)
    assert led.watermark() == 10
    led.fetch(3, 10)  # caught up: the watermark now waits for it, so that it can join
    led.end_offset = 12
    led.fetch(2, 12)
    assert led.watermark() == 10
    led.around.ms += LAG_MAX_MS + 1
    assert led.watermark() == 12


def test_a_stopping_broker_does_not_hold_the_watermark() -> None:
    led = Led(isr=(1, 2), end_offset=10)
    led.fetch(2, 10)
    led.fetch(3, 10)
    led.end_offset = 12
    led.fetch(2, 12)
    led.around.brokers[3] = BrokerStatus(30, in_controlled_shutdown=True)
    assert led.watermark() == 12


def test_the_watermark_stops_below_min_insync_replicas() -> None:
    led = Led(isr=(1,), end_offset=5, minimum=2)
    assert led.watermark() is None


def test_a_follower_joins_at_the_watermark_and_the_start_of_the_epoch() -> None:
    led = Led(isr=(1, 2), end_offset=10)
    led.fetch(3, 9)
    assert led.leadership.expansion(3, high_watermark=6) is None  # below the epoch's start
    led.fetch(3, 10)
    assert led.leadership.expansion(3, high_watermark=11) is None
    proposal = led.leadership.expansion(3, high_watermark=10)
    assert proposal is not None
    assert proposal.isr == ((1, 10), (2, -1), (3, 30))  # 2 has not fetched yet
    assert (proposal.leader_epoch, proposal.partition_epoch) == (4, 7)
    assert led.leadership.maximal_isr == {1, 2, 3}
    assert led.leadership.isr == {1, 2}
    assert led.leadership.expansion(3, high_watermark=10) is None  # one at a time


@pytest.mark.parametrize(
    "standing",
    [BrokerStatus(30, fenced=True), BrokerStatus(30, in_controlled_shutdown=True), BrokerStatus(31)],
)
def test_an_ineligible_replica_is_not_proposed(standing: BrokerStatus) -> None:
    led = Led(isr=(1, 2))
    led.fetch(3, 0)
    led.around.brokers[3] = standing
    assert led.leadership.expansion(3, 0) is None


def test_a_fetch_with_an_old_broker_epoch_is_refused() -> None:
    led = Led()
    with pytest.raises(NotLeaderOrFollower):
        led.fetch(3, 0, epoch=29)
    led.fetch(3, 0, epoch=-1)  # an unknown epoch is accepted
    led.fetch(3, 0, epoch=31)  # a newer epoch than in our metadata


def test_a_fetch_of_a_non_replica_gets_a_retriable_error() -> None:
    led = Led()
    with pytest.raises(UnknownLeaderEpoch):
        led.leadership.follower(9, names_epoch=True)
    with pytest.raises(NotLeaderOrFollower):
        led.leadership.follower(9, names_epoch=False)


def test_a_lagging_follower_counts_until_its_removal_is_accepted() -> None:
    led = Led(end_offset=0)
    led.fetch(2, 0)
    led.fetch(3, 0)
    led.end_offset = 10
    led.around.ms += LAG_MAX_MS
    led.fetch(2, 10)
    assert led.leadership.shrinkage(10) is None
    led.around.ms += 1
    proposal = led.leadership.shrinkage(10)
    assert proposal is not None
    assert proposal.removed == {3}
    assert [node for node, _ in proposal.isr] == [1, 2]
    assert led.watermark() == 0
    assert led.leadership.accepted(proposal, AcceptedChange(4, 8, (1, 2)))
    assert led.watermark() == 10


def test_a_follower_that_lags_slightly_stays_in_the_isr() -> None:
    led = Led(end_offset=0)
    for number in range(1, 20):
        led.fetch(2, led.end_offset)
        led.fetch(3, max(0, led.end_offset - 1))  # the log end at its last fetch
        led.end_offset = number
        led.around.ms += LAG_MAX_MS // 2
    assert led.leadership.lagging(led.end_offset) == set()


def proposed(led: Led) -> Proposal:
    led.fetch(3, led.end_offset)
    proposal = led.leadership.expansion(3, 0)
    assert proposal is not None
    return proposal


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_rejection_without_effect_restores_the_accepted_isr(code: ErrorCode) -> None:
    led = Led(isr=(1, 2))
    proposal = proposed(led)
    assert not led.leadership.rejected(proposal, code)
    assert led.leadership.pending is None
    assert led.leadership.maximal_isr == {1, 2}


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NEW_LEADER_ELECTED]
)
def test_an_ambiguous_rejection_keeps_the_proposal_until_metadata(code: ErrorCode) -> None:
    led = Led(isr=(1, 2))
    proposal = proposed(led)
    assert not led.leadership.rejected(proposal, code)
    assert led.leadership.maximal_isr == {1, 2, 3}
    led.take((1, 2), partition_epoch=8)
    assert led.leadership.maximal_isr == {1, 2}


def test_an_unexpected_error_is_retried() -> None:
    led = Led(isr=(1, 2))
    assert led.leadership.rejected(proposed(led), ErrorCode.UNKNOWN_SERVER_ERROR)


def test_an_outdated_response_is_ignored() -> None:
    led = Led(isr=(1, 2))
    proposal = proposed(led)
    led.take((1,), partition_epoch=9)
    assert not led.leadership.accepted(proposal, AcceptedChange(4, 8, (1, 2, 3)))
    assert not led.leadership.rejected(proposal, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert led.leadership.isr == {1}


def test_repeated_metadata_leaves_the_next_proposal_pending() -> None:
    led = Led(isr=(1,), end_offset=10)
    led.fetch(2, 10)
    first = led.leadership.expansion(2, high_watermark=10)
    assert first is not None
    assert led.leadership.accepted(first, AcceptedChange(4, 8, (1, 2)))
    led.end_offset = 20
    led.fetch(3, 10)  # at the watermark, but never at the log end
    second = led.leadership.expansion(3, high_watermark=10)
    assert second is not None
    led.take((1, 2), partition_epoch=8)  # the controller may have accepted the second proposal
    assert led.leadership.pending is second
    led.fetch(2, 20)
    assert led.watermark() == 10
    assert led.leadership.accepted(second, AcceptedChange(4, 9, (1, 2, 3)))


def test_the_low_watermark_covers_live_replicas() -> None:
    led = Led()
    led.fetch(2, 0, log_start=3)
    led.fetch(3, 0, log_start=5)
    assert led.leadership.low_watermark(7) == 3
    led.around.brokers[2] = BrokerStatus(20, fenced=True)
    assert led.leadership.low_watermark(7) == 5
    assert led.leadership.low_watermark(4) == 4


def test_a_consumer_reads_from_the_most_advanced_replica_in_its_rack() -> None:
    racks = {1: "a", 2: "b", 3: "b"}
    readings = [ReadableReplica(8, 100, 2), ReadableReplica(9, 50, 3)]
    assert nearest_replica("b", 1, readings, racks) == 3
    assert nearest_replica("a", 1, readings, racks) is None  # the leader is in that rack
    assert nearest_replica("c", 1, readings, racks) is None
    assert nearest_replica("", 1, readings, racks) is None
    assert nearest_replica("b", 1, readings, {1: "a", 2: "b"}) == 2  # 3 is unreachable
    led = Led(end_offset=10)
    led.fetch(2, 4, log_start=2)
    assert [one.broker_id for one in led.leadership.readable(4)] == [2]
    assert led.leadership.readable(5) == led.leadership.readable(1) == []
