"""The client library: producer, consumer and admin for any broker that speaks Kafka's protocol.

Users import the public names from `ottla` (they block) and `ottla.aio` (the same, awaited). What decides is
in `core/` and waits for nothing; `net/` does the network.
"""
