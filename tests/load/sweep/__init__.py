"""Large and repetitive requests of every API and version: how long each holds the loop, and what it takes."""
