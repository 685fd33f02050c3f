"""The reference transport: a mail server that loses no acknowledged mail, with shadow redundancy as in Exchange 2010-2019.

aiosmtpd receives, SQLite stores; everything runs in one asyncio loop, without threads. The server imports nothing of the
harness: it reads a JSON file (config.py) and speaks SMTP and LMTP.

A node (node.py) is composed of components (components.py): one object for each documented function, such as `delivery`,
`creation` of shadows or `safety_net`. They find each other and the shared services through `Host` (host.py). The terms: a
*primary message* is one that this server has acknowledged or made itself and must deliver, as its *primary server*; its *shadow*
is a copy on another server, the *shadow server*, which delivers the copy only if the primary server is lost (*promotion*); a
*discard notification* tells the shadow server that it may give the copy up; *Safety Net* keeps delivered messages for a while.
"""
