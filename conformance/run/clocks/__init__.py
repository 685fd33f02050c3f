"""What keeps the time of each clock that `conformance.clocks` declares."""
