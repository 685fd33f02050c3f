"""Exchange 2010 Hub and Edge Transport servers, where the sender keeps the shadow (EX2010).
`rights` says between whom, `verbs` and `outbound` are the two ends of a session, `shadow_queue` holds what was sent,
`heartbeat` is the Shadow Redundancy Manager, `delayed_acknowledgement` serves all other senders.
"""
