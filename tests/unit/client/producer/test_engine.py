"""What the producer makes of a broker's answers, with brokers that answer as a script says."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.support import Script, run

import ottla.aio
from ottla.client.errors import Closed, FatalError, TimedOut
from ottla.client.producer.engine import _NodeState
from ottla.records.batch import read_header
from ottla.wire.errors import ErrorCode, InvalidRecord, TopicAuthorizationFailed, UnknownTopicOrPartition
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

TOPIC, TOPIC_ID = "t", b"t" * 16

Told = ProduceResponse.PartitionProduceResponse


class Brokers(Script):
    """A broker of one topic. `answer(number, batch header)` tells what becomes of a batch."""

    def __init__(self, answer: Callable[[int, Any], Any], node_id: int = 0) -> None:
        super().__init__(lambda script, version, request: self._handle_request(request), node_id)
        self._answer_batch = answer
        self.produced: list[Any] = []
        self.leader = node_id
        self.epoch = 1
        self.refreshes = 0
        self.topic_id = TOPIC_ID
        self.partition_count = 1

    def _handle_request(self, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            self.refreshes += 1
            answer = self.metadata()
            partitions = [
                MetadataResponse.MetadataResponsePartition(
                    partition_index=index, leader_id=self.leader, leader_epoch=self.epoch
                )
                for index in range(self.partition_count)
            ]
            answer.topics = [
                MetadataResponse.MetadataResponseTopic(
                    name=TOPIC, topic_id=self.topic_id, partitions=partitions
                )
            ]
            return answer
        if request.NAME == "InitProducerIdRequest":
            return InitProducerIdResponse(producer_id=7, producer_epoch=0)
        if request.NAME == "ProduceRequest":
            return self._produce(request)
        return None

    def _produce(self, request: ProduceRequest) -> Any:
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        header = read_header(records)
        self.produced.append(header)
        told = self._answer_batch(len(self.produced) - 1, header)
        if told is Script.CUT or told is None or isinstance(told, ProduceResponse):
            return told if told is not None else ProduceResponse()
        topic = ProduceResponse.TopicProduceResponse(
            name=TOPIC, topic_id=request.topic_data[0].topic_id, partition_responses=[told]
        )
        return ProduceResponse(responses=[topic])

    @property
    def sequences(self) -> list[tuple[int, int]]:
        return [(header.producer_epoch, header.base_sequence) for header in self.produced]


def codes(*given: ErrorCode, **more: Any) -> Callable[[int, Any], Any]:
    """These error codes, one for each request, then success at the offset of the sequence."""

    def answer(number: int, header: Any) -> Any:
        if number < len(given):
            return Told(error_code=given[number], base_offset=-1, **more)
        return Told(base_offset=header.base_sequence)

    return answer


def producer_of(broker: Script, **more: Any) -> ottla.aio.Producer:
    return ottla.aio.Producer(broker.address, **{"linger_ms": 0, "retry_backoff_ms": 1, **more})


def test_retriable_codes_are_tried_again_with_the_same_sequence() -> None:
    async def main() -> None:
        async with Brokers(codes(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)) as broker:
            async with producer_of(broker) as producer:
                report = await (await producer.send(TOPIC, b"x"))
                assert report.status is ottla.aio.Status.PERSISTED
            assert broker.sequences == [(0, 0), (0, 0), (0, 0)]

    run(main())


def test_a_code_that_no_try_cures_fails_the_record_and_the_next_one_has_a_new_epoch() -> None:
    async def main() -> None:
        async with Brokers(codes(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) as broker:
            async with producer_of(broker) as producer:
                delivery = await producer.send(TOPIC, b"x")
                with pytest.raises(TopicAuthorizationFailed):
                    await delivery
                await (await producer.send(TOPIC, b"y"))
            assert broker.sequences == [(0, 0), (1, 0)]

    run(main())


def test_a_request_that_ends_with_the_producer_is_not_reported_as_an_error_that_nobody_saw() -> None:
    async def main() -> None:
        reported: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reported.append(context))
        async with Brokers(codes()) as broker:
            producer = producer_of(broker)
            await (await producer.send(TOPIC, b"x"))
            await producer.close()
            request: asyncio.Future[Any] = loop.create_future()
            request.set_exception(Closed("The client is closed."))
            producer._core.engine._answered(_NodeState(0), [], request)
            del request
            gc.collect()
        assert reported == []

    run(main())


def test_records_keep_their_order_although_the_first_batch_to_a_partition_is_refused_for_a_moment() -> None:
    """The broker knows nothing of the producer, so it takes any first number, as Kafka does."""
    taken: list[int] = []
    refusals = iter([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])

    def answer(number: int, header: Any) -> Any:
        refusal = next(refusals, None)
        if refusal is not None:
            return Told(error_code=refusal, base_offset=-1)
        if taken and header.base_sequence != len(taken):
            return Told(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, base_offset=-1)
        taken.extend(range(header.base_sequence, header.base_sequence + header.record_count))
        return Told(base_offset=len(taken) - header.record_count)

    async def story() -> None:
        async with Brokers(answer) as broker:
            settings: dict[str, Any] = {"batch_size": 1, "retry_backoff_ms": 5, "delivery_timeout_ms": 5000}
            settings |= {"request_timeout_ms": 1000, "linger_ms": 0}
            async with ottla.aio.Producer(broker.address, **settings) as producer:
                deliveries = [await producer.send(TOPIC, b"%d" % number) for number in range(20)]
                assert [(await one).offset for one in deliveries] == list(range(20))
            assert taken == list(range(20))
            assert {header.producer_epoch for header in broker.produced} == {0}

    run(story())


def test_a_broker_that_gives_a_negative_producer_id_is_asked_again_after_a_pause() -> None:
    asked = 0

    class Odd(Brokers):
        def _handle_request(self, request: Any) -> Any:
            nonlocal asked
            if request.NAME == "InitProducerIdRequest":
                asked += 1
                if asked < 4:
                    return InitProducerIdResponse(producer_id=-1, producer_epoch=-1)
            return super()._handle_request(request)

    async def story() -> None:
        pauses: list[int] = []
        async with (
            Odd(codes()) as broker,
            ottla.aio.Producer(broker.address, retry_backoff_ms=5) as producer,
        ):
            backoff = producer._core.engine.cluster.backoff

            def delay_ms(attempt: int) -> float:
                pauses.append(attempt)
                return backoff.delay_ms(attempt)

            recorder: Any = SimpleNamespace(delay_ms=delay_ms)
            producer._core.engine.cluster.backoff = recorder
            assert (await (await producer.send(TOPIC, b"x"))).offset == 0
        assert asked == 4
        assert pauses == [0, 1, 2]

    run(story())


def test_a_duplicate_is_a_success() -> None:
    async def main() -> None:
        async with (
            Brokers(codes(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)) as broker,
            producer_of(broker) as producer,
        ):
            report = await (await producer.send(TOPIC, b"x"))
            assert (report.offset, report.status) == (-1, ottla.aio.Status.PERSISTED)

    run(main())


def test_a_gap_that_the_broker_sees_and_we_do_not_ends_the_epoch_and_nothing_is_lost() -> None:
    async def main() -> None:
        async with Brokers(codes(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)) as broker:
            async with producer_of(broker) as producer:
                await (await producer.send(TOPIC, b"x"))
            assert broker.sequences == [(0, 0), (1, 0)]

    run(main())


def test_a_hint_is_followed_without_asking_for_metadata() -> None:
    async def main() -> None:
        async with Brokers(codes(), node_id=1) as other:

            def answer(number: int, header: Any) -> Any:
                leader = ProduceResponse.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
                told = Told(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
                topic = ProduceResponse.TopicProduceResponse(
                    name=TOPIC, topic_id=TOPIC_ID, partition_responses=[told]
                )
                endpoint = ProduceResponse.NodeEndpoint(node_id=1, host="127.0.0.1", port=other.port)
                return ProduceResponse(responses=[topic], node_endpoints=[endpoint])

            async with Brokers(answer) as broker, producer_of(broker) as producer:
                await producer.partitions_for(TOPIC)
                before = broker.refreshes
                await (await producer.send(TOPIC, b"x"))
                assert len(broker.produced) == 1
                assert len(other.produced) == 1
                assert broker.refreshes == before

    run(main())


def test_without_a_hint_metadata_tells_who_leads_now() -> None:
    async def main() -> None:
        async with (
            Brokers(codes(), node_id=1) as other,
            Brokers(codes(*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000)) as broker,
            producer_of(broker) as producer,
        ):
            await producer.partitions_for(TOPIC)
            broker.known = {0: broker.port, 1: other.port}
            broker.leader, broker.epoch = 1, 2
            await (await producer.send(TOPIC, b"x"))
            assert len(other.produced) == 1

    run(main())


def test_records_that_are_refused_one_by_one_have_errors_of_their_own() -> None:
    wrong = ProduceResponse.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
    answer = codes(ErrorCode.INVALID_RECORD, record_errors=[wrong], error_message="one is wrong")

    async def main() -> None:
        async with (
            Brokers(answer) as broker,
            ottla.aio.Producer(broker.address, linger_ms=60_000) as producer,
        ):
            first = await producer.send(TOPIC, b"1")
            second = await producer.send(TOPIC, b"2")
            await producer.flush()
            with pytest.raises(InvalidRecord, match="one is wrong"):
                await first
            with pytest.raises(InvalidRecord, match="no key"):
                await second

    run(main())


def test_an_answer_that_leaves_a_batch_out_counts_as_none() -> None:
    answers = iter([None])

    async def main() -> None:
        async with Brokers(
            lambda number, header: next(answers, Told(base_offset=header.base_sequence))
        ) as broker:
            async with producer_of(broker) as producer:
                await (await producer.send(TOPIC, b"x"))
            assert broker.sequences == [(0, 0), (0, 0)]

    run(main())


def test_batches_behind_one_that_is_tried_again_are_sent_again_behind_it() -> None:
    written = 0

    def answer(number: int, header: Any) -> Any:
        nonlocal written
        if number == 0:
            return Told(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
        if header.base_sequence != written:
            return Told(error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        written += header.record_count
        return Told(base_offset=header.base_sequence)

    async def main() -> None:
        async with Brokers(answer) as broker, producer_of(broker, batch_size=1) as producer:
            deliveries = [await producer.send(TOPIC, b"%d" % number) for number in range(20)]
            assert [(await delivery).offset for delivery in deliveries] == list(range(20))
            assert {epoch for epoch, _ in broker.sequences} == {0}

    run(main())


def test_a_producer_that_may_not_have_an_id_cannot_go_on() -> None:
    def refuse(script: Script, version: int, request: Any) -> Any:
        if request.NAME == "InitProducerIdRequest":
            return InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return None

    async def main() -> None:
        async with Brokers(codes()) as broker:
            handle = broker._handle
            assert handle is not None
            broker._handle = lambda *given: refuse(*given) or handle(*given)
            async with producer_of(broker) as producer:
                delivery = await producer.send(TOPIC, b"x")
                with pytest.raises(Exception, match="not allocate a producer id"):
                    await delivery
                with pytest.raises(FatalError):
                    await producer.send(TOPIC, b"y")

    run(main())


def test_a_record_that_was_never_sent_is_not_persisted_when_its_time_is_over() -> None:
    def deaf(script: Script, version: int, request: Any) -> Any:
        return Script.SILENT if request.NAME == "InitProducerIdRequest" else None

    async def main() -> None:
        async with Brokers(codes()) as broker:
            handle = broker._handle
            assert handle is not None
            broker._handle = lambda *given: deaf(*given) or handle(*given)
            async with producer_of(
                broker, request_timeout_ms=100_000, delivery_timeout_ms=100_500
            ) as producer:
                producer._core.engine.outcomes._delivery_seconds = 0.2
                report = None
                delivery = await producer.send(TOPIC, b"x", on_delivery=lambda one: None)
                with pytest.raises(TimedOut, match=r"delivery\.timeout\.ms"):
                    report = await delivery
                assert report is None
                assert delivery.report().status is ottla.aio.Status.NOT_PERSISTED

    run(main())


@pytest.mark.parametrize("where", ["_tend_identity", "_send", "cluster.send"])
def test_after_a_turn_that_failed_there_is_another(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            Brokers(codes()) as broker,
            producer_of(broker, max_in_flight_requests_per_connection=1) as producer,
        ):
            await (await producer.send(TOPIC, b"x"))
            engine = producer._core.engine
            owner = engine.cluster if where == "cluster.send" else engine
            name = where.rpartition(".")[2]
            working = getattr(owner, name)

            def fail(*given: Any, **more: Any) -> Any:
                setattr(owner, name, working)
                raise MemoryError("no memory for a batch")

            setattr(owner, name, fail)
            for value in (b"y", b"z"):
                await (await producer.send(TOPIC, value))
            assert broker.sequences == [(0, 0), (0, 1), (0, 2)]
            assert [node.in_flight for node in engine._nodes.values()] == [0]
            assert engine.accumulator.topics[TOPIC].queues[0].in_flight == 0

    run(main())
    assert caplog.text.count("The producer failed to send") == 1


def test_a_topic_that_is_made_anew_with_fewer_partitions_is_written_to() -> None:
    def answer(number: int, header: Any) -> Any:
        if broker.requests[-1].topic_data[0].topic_id != broker.topic_id:
            return Told(error_code=ErrorCode.UNKNOWN_TOPIC_ID, base_offset=-1)
        return Told(base_offset=header.base_sequence)

    broker = Brokers(answer)
    broker.partition_count = 3

    async def main() -> None:
        async with broker, producer_of(broker, linger_ms=60_000) as producer:
            engine = producer._core.engine
            first = await producer.send(TOPIC, b"x", partition=0)
            await engine.flush()
            assert first.report().error is None
            old = engine.accumulator.topics[TOPIC]
            gone = await producer.send(TOPIC, b"gone", partition=2)
            broker.topic_id, broker.partition_count = b"u" * 16, 1
            await engine.cluster.refresh(topics=[TOPIC], timeout_ms=60_000)
            with pytest.raises(UnknownTopicOrPartition, match="recreated with 1 partitions"):
                await gone
            second = await producer.send(TOPIC, b"y", partition=0)
            await engine.flush()
            assert second.report().error is None
            made = engine.accumulator.topics[TOPIC]
            assert made is not old
            assert made.queues == old.queues[:1]
            assert made.queues[0].topic is made
            assert engine.accumulator.used == 0

    run(main())


@pytest.mark.parametrize("given", [{}, {"batch_size": 16384}])
def test_a_batch_size_that_is_set_is_an_upper_bound(given: dict[str, Any]) -> None:
    async def main() -> None:
        async with Brokers(codes()) as broker:
            async with producer_of(broker, **given) as producer:
                for _ in range(200):
                    await producer.send(TOPIC, bytes(1000))
            sizes = [header.length_bytes for header in broker.produced]
            assert sum(header.record_count for header in broker.produced) == 200
            assert (max(sizes) <= 16384) is bool(given)

    run(main())


def test_a_grown_batch_is_sent_at_batch_size_once_no_other_waits() -> None:
    async def main() -> None:
        async with Brokers(codes()) as broker, producer_of(broker, linger_ms=60_000) as producer:
            await producer.send(TOPIC, b"x")
            await producer.flush()
            engine = producer._core.engine
            accumulator = engine.accumulator
            queue = accumulator.topics[TOPIC].queues[0]

            def append(count: int) -> None:
                for _ in range(count):
                    accumulator.append(TOPIC, None, bytes(1000), None, 0, -1, None)

            append(36)
            first, second, grown = queue.batches
            assert grown.builder.batch_size == 2 * 16384
            queue.batches.popleft()
            queue.batches.popleft()
            now = grown.created
            assert engine._ready_at(queue, now, False) == now + 60  # linger.ms
            append(20)
            assert len(queue.batches) == 2
            assert grown.builder.bytes_estimate <= 16384
            queue.batches.extendleft([second, first])

            append(100)
            large = max(queue.batches, key=lambda batch: batch.count)
            queue.batches.remove(large)
            others = list(queue.batches)
            queue.batches.clear()
            queue.batches.append(large)
            assert engine._ready_at(queue, large.created, False) == large.created
            queue.batches.clear()
            queue.batches.extend([*others, large])
            await producer.flush()

    run(main())


def test_batches_that_grow_keep_their_order_without_sequences_although_the_topic_rejects_large_ones() -> None:
    written: list[int] = []

    def answer(number: int, header: Any) -> Any:
        if header.length_bytes > 20_000:
            return Told(error_code=ErrorCode.MESSAGE_TOO_LARGE, base_offset=-1)
        written.append(header.base_timestamp)
        return Told(base_offset=0)

    async def main() -> None:
        async with Brokers(answer) as broker:
            async with producer_of(broker, acks=1, enable_idempotence=False) as producer:
                for number in range(190):
                    await producer.send(TOPIC, bytes(1000), timestamp=number)
                await producer.flush()
                assert producer._core.engine.counts["splits"] > 0
            accepted = [header for header in broker.produced if header.length_bytes <= 20_000]
            assert sum(header.record_count for header in accepted) == 190
            assert written == sorted(written)

    run(main())


def test_grown_batches_are_in_flight_together_once_the_topic_has_taken_one() -> None:
    async def main() -> None:
        async with (
            Brokers(codes()) as broker,
            producer_of(broker, acks=1, enable_idempotence=False) as producer,
        ):
            for _ in range(3):
                for _ in range(400):
                    await producer.send(TOPIC, bytes(1000))
                await producer.flush()
            engine = producer._core.engine
            queue = engine.accumulator.topics[TOPIC].queues[0]
            assert queue.topic.proven_bytes == max(header.length_bytes for header in broker.produced)
            for _ in range(400):
                engine.accumulator.append(TOPIC, None, bytes(1000), None, 0, -1, None)
            taken: list[Any] = []
            engine._take([queue], taken)
            engine._take([queue], taken)
            engine._take([queue], taken)
            assert len(taken) == 3
            engine._untake(taken)

    run(main())
