"""The client library: producer, consumer and admin for any broker that speaks Kafka's protocol.

Users import the public names from `ottla` (blocking) and `ottla.aio` (asyncio). `core/` makes all decisions
and does no IO; `net/` does the network IO.
"""
