"""`python -m conformance`: the command line where the package is not installed."""

from conformance.cli import main

main()
