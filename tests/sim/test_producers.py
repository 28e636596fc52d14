"""A producer that gets no responses, on production nodes in virtual time."""

from __future__ import annotations

import asyncio

from ottla import TopicPartition
from ottla.client.admin.topics import NewTopic
from ottla.testing.world import World

PLACE = TopicPartition("t", 0)


def test_a_producer_with_acks_0_finds_the_next_leader() -> None:
    """With acks=0 a broker refuses a batch by closing the connection; the client then looks up the leader."""
    with World(5) as world:
        world.add_nodes(3)
        client = world.client("client")

        async def write_until_read() -> int:
            async with client.admin() as admin, client.producer(acks=0, enable_idempotence=False) as producer:
                await admin.create_topics([NewTopic("t", assignments={0: [1]})])
                await producer.send("t", b"before", partition=0)
                await admin.alter_partition_reassignments({PLACE: [2]})
                while await admin.list_partition_reassignments():
                    await asyncio.sleep(0.1)
                async with client.consumer() as consumer:
                    await consumer.assign([PLACE])
                    await consumer.seek_to_end()
                    for sends in range(1, 100):
                        await producer.send("t", b"after", partition=0)
                        if await consumer.poll(0.5):
                            return sends
            return 0

        async def story() -> int:
            await world.start()
            return await client.spawn(write_until_read())

        assert 0 < world.run(story(), limit_s=300) < 10
