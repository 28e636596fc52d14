"""Log compaction: which logs are dirty, which records stay, and the replacement of segments."""
