"""The implementations of the clocks that `conformance.clocks` declares: `interface` has their protocol and registry."""
