# Generated from schemas/*.txt by `python -m ottla.wire.generate`. Change those, not this.
# fmt: off
"""Generated classes of all messages: import the module of an API, or of a kind of records."""
