"""The implementations of the clocks that `conformance.clocks` declares."""
