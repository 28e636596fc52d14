"""The tests of Ottla: `unit` mirrors the source tree, `interop` runs real peers."""
