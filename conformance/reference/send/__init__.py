"""The SMTP and LMTP client of a node: a session with one server, and mail transactions in it.

`connection` writes commands and reads replies, `dialogue` has the mail transaction, `smtp` and `lmtp` what only one of the
protocols has; `factory` chooses between them. Nothing here knows of queues or shadows.
"""
