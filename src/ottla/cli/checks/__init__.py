"""What `ottla doctor` looks at.

Each check gives findings: what was looked at, its state, the cause, the cure.
"""
