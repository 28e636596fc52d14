"""The files of log directories at the command line: `ottla log dump` and `ottla log verify`."""
