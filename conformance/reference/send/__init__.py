"""What a node does as an SMTP or LMTP client: a dialogue with one server, and a mail transaction in it.
`protocol` pairs replies with commands, `dialogue` is a session, `transmission` is one message in a session.
Nothing here knows of queues or shadows.
"""
