"""Records at the command line: `ottla record produce` and `ottla record consume`."""
