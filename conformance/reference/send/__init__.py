"""What a node does as an SMTP or LMTP client: a session with one server, and mail transactions in it.
`dialogue` is what both have in common, `connection` carries it; `open` chooses between `smtp` and `lmtp`.
Nothing here knows of queues or shadows.
"""
