"""One partition on disk: segments, indexes, leader epochs, producer state, recovery."""
