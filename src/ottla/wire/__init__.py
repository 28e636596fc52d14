"""The wire protocol: bytes to messages and back, with no IO anywhere in the package."""
