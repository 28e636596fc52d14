"""Planning and progress of `ottla reassign`."""
