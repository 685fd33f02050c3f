"""What stands behind each command of `conformance.cli`, imported when it is called: the command line starts fast."""
