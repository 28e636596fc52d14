"""The consumer: a blocking and an asyncio class on one engine."""
