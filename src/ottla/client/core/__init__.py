"""What the client decides: metadata, backoff, batches, sequences, membership, positions. It never waits."""

import ottla.records  # noqa: F401 - it decides first whether compiled modules run or plain ones
