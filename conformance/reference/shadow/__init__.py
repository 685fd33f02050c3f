"""Shadow redundancy of Exchange 2013 and later.

The *primary* is the server that must deliver a message, the *shadow server* the one that keeps a copy of it. The primary's side:
`choice` selects shadow servers, `creation` has the copy stored on one, `discard` reports which copies may be discarded. The
shadow server's side: `shadow_queues` keeps copies and promotes them (delivers them in place of a lost primary), `manager` watches
their primaries.
"""
