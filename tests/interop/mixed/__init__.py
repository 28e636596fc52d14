"""Clusters of Kafka nodes and Ottla nodes together: each side as controller, each side as broker."""
