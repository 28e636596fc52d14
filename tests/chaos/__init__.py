"""Chaos tests: real processes are killed, paused, disconnected and damaged under load, and their disks
filled."""
