"""The producer: a blocking and an asyncio class on one engine."""
