"""Queues of messages for which this node is the primary: routing, delivery to next hops, retry, expiry, release.
`routing` is a pure function from recipient to next hop, `delivery` the queues by next hop, `mailbox_store` delivery
into mailboxes hosted here, `completion` what follows when a message has been processed.
"""
