"""Client libraries for Python side by side, on one Ottla node: `python -m bench.library`."""
