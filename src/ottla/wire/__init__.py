"""The wire protocol: encodes and decodes messages. The package does no IO."""
