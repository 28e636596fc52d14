"""Serializers and deserializers of keys and values: text, numbers, JSON, Avro, Python classes."""
