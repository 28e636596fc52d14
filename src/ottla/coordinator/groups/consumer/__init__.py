"""The consumer group protocol (KIP-848): the coordinator assigns, members reconcile by heartbeats."""
