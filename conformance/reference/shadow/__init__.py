"""Shadow redundancy: making shadow copies, keeping them, and letting go of them or taking them over.
`choice` says which server is tried, `creation` makes the copy, `discard` is the primary's side of discard status,
`manager` is the Shadow Redundancy Manager of the shadow's side (heartbeat, discard, promotion).
"""
