"""Scripts of raw group requests, put to Kafka and to Ottla in every version and compared field by field."""
