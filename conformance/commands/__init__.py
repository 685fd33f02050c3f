"""What stands behind each command of `conformance.cli`, imported only when it is called: the command line starts fast."""
