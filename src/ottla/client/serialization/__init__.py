"""Keys and values as bytes and back: texts, numbers, JSON, Avro, Python classes."""
