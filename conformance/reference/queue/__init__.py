"""Delivery queues of messages for which this node is the primary: from acceptance to processed.
`routing` finds next hops, `delivery` takes messages in hand, `next_hop` is one queue, `outbound` a session with a next
hop, `mailbox_store` the stores behind this server, `completion` what follows when a message has been processed.
"""
