"""What a node does as an SMTP or LMTP server: listeners, sessions, commands, and the replies to them.
`session` is one connection, `transaction` one mail transaction, `shadow_verbs` the shadow redundancy commands,
`acceptance` what happens between a message's final dot and its reply.
"""
