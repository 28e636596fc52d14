"""Ottla's format for Spark and Spark's own connector side by side: one Spark, one broker, in turn."""
