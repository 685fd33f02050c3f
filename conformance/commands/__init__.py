"""One module for each command of `conformance.cli`, or for related ones. Each is imported when its command is called."""
