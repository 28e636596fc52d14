"""Code that the Kafka-named tools and the `ottla` command share: files they read, plans, decoders, searches.

`reassignments.py` has the moves and throttles of reassignments; `java_order.py` the order of a Java HashMap.
"""
