"""The client's decisions: metadata, backoff, batches, sequences, membership, positions. Does no IO."""

import ottla.records  # noqa: F401 - it decides first whether compiled modules run or plain ones
