"""Kafka and Ottla side by side: the same loads on the same machine in one run, in turn.

`python -m bench` (or `make bench`) prints the table of ratios and writes JSON and a plot to bench/results.

Rules of a fair run: both brokers have the same `server.properties` and file system, both get the same warm-up
load before the first measurement, only one is under load at a time while the other is idle (its CPU use then
is measured, too), every row alternates A B A B over the rounds, and the median counts.
"""
