"""Delivery queues of primary messages: from acceptance until every recipient has been reached or reported.

`delivery` processes messages, `hop_queue` is the queue for one next hop, `outbound` the sessions with next hops, and
`mailbox_store` delivers into the mailbox store behind this server.
"""
