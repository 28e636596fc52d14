"""Brokers that are stopped and killed while real clients write to them."""
