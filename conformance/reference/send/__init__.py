"""What a node does as an SMTP or LMTP client: a session with one server, and mail transactions in it.
`dialogue` is what both have in common, `smtp` speaks over aiosmtplib, `lmtp` by itself; `open` chooses between them.
Nothing here knows of queues or shadows.
"""
