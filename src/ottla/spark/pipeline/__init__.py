"""Pipelines: streams between topics, files, tables and databases, written down in a YAML file.

parse.py P    the file -> model.py P, with every fault at its line and column
graph.py P    who reads whom; picture.py P draws it
build.py      the model -> data frames of Spark
check.py      what can be known before anything starts: topics, columns, modes
run.py        the queries, their progress and their restarts
state.py      what lies in the checkpoint directory: status and reset
jobs/         pipelines that are made from flags: mirror, archive, replay, load, profile
"""
