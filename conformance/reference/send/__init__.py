"""The SMTP and LMTP client of a node: a session with one server, and mail transactions in it.

`dialogue` has what both protocols share, `smtp` uses aiosmtplib, `lmtp` plain streams; `factory` chooses between them. Nothing here
knows of queues or shadows.
"""
