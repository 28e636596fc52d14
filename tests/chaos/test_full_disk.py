"""A single node on a full disk: it stays up, refuses records, still deletes topics, restarts, and serves once
there is space."""

from __future__ import annotations

from pathlib import Path

import ottla
from ottla.client.errors import ClientError
from ottla.testing import Broker
from ottla.wire.errors import KafkaError
from tests.chaos import disks
from tests.interop import peers
from tests.interop.cluster.nodes import SECONDS_MAX

DISK_BYTES = 16 << 20
# The metadata log grows by a block per second, so that it soon hits the full disk.
SETTINGS = {"metadata.max.idle.interval.ms": "10", "broker.heartbeat.interval.ms": "200"}
RESERVE = "now uses its reserve"


def test_a_node_on_a_full_disk_stays_up_and_recovers(tmp_path: Path) -> None:
    with disks.small_disk(tmp_path / "data", DISK_BYTES) as disk:
        broker = Broker(SETTINGS, in_process=False, data_directory=tmp_path)
        with broker:
            assert send(broker, "kept", b"before")
            disk.fill()
            peers.wait_until(
                lambda: RESERVE in broker.log_text,
                SECONDS_MAX,
                lambda: f"the metadata log to meet the full disk:\n{broker.log_text[-2000:]}",
            )
            refuse(broker)
            with ottla.Admin(broker.bootstrap_servers) as admin:
                admin.create_topics(["made"])  # a change of the metadata needs only the reserve
                admin.delete_topics(["made"])

            broker.kill()
            started = broker.log_text.count("Kafka Server started")
            broker.start()  # on the disk that is still full
            refuse(broker)

            disk.make_room()
            peers.wait_until(lambda: send(broker, "kept", b"after"), SECONDS_MAX, "records to be taken again")
            assert broker.log_text.count("Kafka Server started") == started + 1
            records = read(broker, "kept", b"after")
            assert records[0] == b"before"
        assert "Traceback" not in broker.log_text


def refuse(broker: Broker) -> None:
    """Send until the last page of the segment is full, too: the node reports it, and continues."""
    peers.wait_until(lambda: not send(broker, "kept", bytes(4096)), SECONDS_MAX, "a record to be refused")


def send(broker: Broker, topic: str, value: bytes) -> bool:
    """Whether the node accepts a record."""
    with ottla.Producer(
        broker.bootstrap_servers,
        delivery_timeout_ms=1000,
        request_timeout_ms=1000,
        linger_ms=0,
        max_block_ms=2000,
    ) as producer:
        try:
            producer.send(topic, value).result(timeout=SECONDS_MAX)
        except (KafkaError, ClientError, TimeoutError):
            return False
        return True


def read(broker: Broker, topic: str, last: bytes) -> list[bytes | None]:
    """The records of a topic up to the one with this value."""
    with ottla.Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        records: list[bytes | None] = []

        def has_come() -> bool:
            records.extend(record.value for record in consumer.poll(timeout=1.0))
            return last in records

        peers.wait_until(has_come, SECONDS_MAX, lambda: f"{last!r} among {len(records)} records")
        return records
