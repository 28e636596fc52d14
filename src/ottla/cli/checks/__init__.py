"""The checks of `ottla doctor`.

Each check returns findings: the check's name, its state, the cause and the remedy.
"""
