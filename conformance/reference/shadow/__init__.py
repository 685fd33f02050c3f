"""Shadow redundancy of Exchange 2013 and later.

The primary's side: `choice` selects shadow servers, `creation` has the copy stored on one, `discard` reports which copies may be
discarded. The shadow server's side: `shadow_queues` keeps copies and promotes them, `manager` watches their primaries.
"""
