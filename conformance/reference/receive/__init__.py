"""What a node does as an SMTP and LMTP server: sessions of its listeners, rights, the shadow verbs, and acceptance.
`session` is one session (aiosmtpd), `verbs` the shadow verbs in it, `rights` who may do what, `acceptance` what happens
between a message's final dot and its reply.
"""
