"""Log compaction: which logs are dirty, what stays of them, and the exchange of their segments."""
