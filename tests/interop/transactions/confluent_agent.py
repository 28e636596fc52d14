"""Transactions with confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.interop.transactions.lines import ATTEMPTS, CLIENT_ID, TRANSACTIONS, serve


def _producer(command: dict[str, Any], **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": command["bootstrap"],
            "client.id": CLIENT_ID,
            "transactional.id": command["id"],
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "linger.ms": 0,
            "log_level": 0,
            **settings,
        }
    )


def flow(command: dict[str, Any]) -> dict[str, Any]:
    producer = _producer(command)
    consumer = Consumer(
        {"bootstrap.servers": command["direct"], "group.id": command["group"], "log_level": 0}
    )
    attempts = 0
    _until_done(partial(producer.init_transactions, 20))
    for records, offset, is_commit in TRANSACTIONS:
        for _ in range(ATTEMPTS):
            attempts += 1
            producer.begin_transaction()
            try:
                for partition, value in records:
                    producer.produce(command["topic"], value=value, partition=partition)
                producer.flush(20)
                if command["offsets"]:
                    offsets = [TopicPartition(command["source"], 0, offset)]
                    group = consumer.consumer_group_metadata()
                    _until_done(partial(producer.send_offsets_to_transaction, offsets, group, 20))
                end = producer.commit_transaction if is_commit else producer.abort_transaction
                _until_done(partial(end, 20))
                break
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                _until_done(partial(producer.abort_transaction, 20))
    consumer.close()
    return {"attempts": attempts}


def _until_done(step: Callable[[], object]) -> None:
    for _ in range(ATTEMPTS):
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    raise TimeoutError("it may be tried again, and again, and again")


def fence(command: dict[str, Any]) -> dict[str, Any]:
    old = _producer(command)
    old.init_transactions(20)
    old.begin_transaction()
    old.produce(command["topic"], value="of the old one", partition=0)
    old.flush(20)
    new = _producer(command)
    new.init_transactions(20)
    try:
        old.commit_transaction(20)
    except KafkaException as error:
        return {"refused": error.args[0].name(), "is_fatal": error.args[0].fatal()}
    return {"refused": None}


def overstay(command: dict[str, Any]) -> dict[str, Any]:
    producer = _producer(command, **{"transaction.timeout.ms": 1000, "message.timeout.ms": 1000})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(command["topic"], value="too late", partition=0)
    producer.flush(20)
    time.sleep(command["seconds"])
    try:
        producer.commit_transaction(20)
    except KafkaException as error:
        return {"refused": error.args[0].name()}
    return {"refused": None}


def _member(command: dict[str, Any]) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": command["bootstrap"],
        "group.id": command["group"],
        "group.protocol": command["protocol"],
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.interval.ms": command["poll_interval_ms"],
        "log_level": 0,
    }
    if command["protocol"] == "classic":
        session_ms = command.get("session_ms", command["poll_interval_ms"])
        settings |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 300}
    settings |= {"client.id": command.get("member", "member")}
    if command.get("instance"):
        settings |= {"group.instance.id": command["instance"]}
    consumer = Consumer(settings)
    consumer.subscribe([command["source"]])
    return consumer


def _offsets_after(consumer: Consumer, count: int) -> Any:
    read = 0
    while read < count:
        message = consumer.poll(0.2)
        read += message is not None and message.error() is None
    return consumer.position(consumer.assignment())


@dataclass
class Zombie:
    """A member within its transaction."""

    member: Consumer
    producer: Producer
    offsets: Any

    @classmethod
    def begun(cls, command: dict[str, Any]) -> Self:
        member = _member(command)
        offsets = _offsets_after(member, 5)
        producer = _producer(command)
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(command["topic"], value="of the zombie", partition=0)
        producer.flush(20)
        return cls(member, producer, offsets)

    def commit(self) -> dict[str, Any]:
        refused = None
        try:
            group = self.member.consumer_group_metadata()
            self.producer.send_offsets_to_transaction(self.offsets, group, 20)
            self.producer.commit_transaction(20)
        except KafkaException as error:
            refused = error.args[0].name()
            self.producer.abort_transaction(20)
        return {"refused": refused}


_zombies: list[Zombie] = []


def begin_zombie(command: dict[str, Any]) -> dict[str, Any]:
    _zombies.append(Zombie.begun(command))
    return {}


def end_zombie(command: dict[str, Any]) -> dict[str, Any]:
    return _zombies[-1].commit()


def close_zombie(command: dict[str, Any]) -> dict[str, Any]:
    _zombies.pop().member.close()
    return {}


def zombie(command: dict[str, Any]) -> dict[str, Any]:
    old = Zombie.begun(command)
    # From here on the old member does not poll: its group goes on without it, and the new one has it all.
    new = _member(command)
    taken = _offsets_after(new, command["count"])
    successor = _producer({**command, "id": f"{command['id']}-new"})
    successor.init_transactions(20)
    successor.begin_transaction()
    successor.produce(command["topic"], value="of the new one", partition=0)
    successor.send_offsets_to_transaction(taken, new.consumer_group_metadata(), 20)
    successor.commit_transaction(20)
    answer = old.commit()
    new.close()
    old.member.close()
    return answer


if __name__ == "__main__":
    serve(
        {
            "flow": flow,
            "fence": fence,
            "overstay": overstay,
            "zombie": zombie,
            "begin_zombie": begin_zombie,
            "end_zombie": end_zombie,
            "close_zombie": close_zombie,
        }
    )
