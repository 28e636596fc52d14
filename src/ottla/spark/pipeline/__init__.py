"""Pipelines: streams between topics, files, tables and databases, defined in a YAML file.

parse.py P    the file -> model.py P, reporting every fault with its line and column
graph.py P    which part reads which; graph_svg.py P draws it
build.py      the model -> data frames of Spark
check.py      checks before anything starts: topics, columns, modes
run.py        the queries, their progress and their restarts
state.py      the checkpoint directory: status and reset
jobs/         pipelines built from flags: mirror, archive, replay, load, profile
"""
