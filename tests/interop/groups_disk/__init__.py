"""`__consumer_offsets` on disk: what one broker wrote about groups the other reads and continues."""
