"""`conformance listen`: a next hop that misbehaves as a recipient's address asks, and judges the clients that connect to it."""
