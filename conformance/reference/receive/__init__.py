"""The SMTP and LMTP server of a node.

`session` is one session of a listener (aiosmtpd, made faster in `fast_smtp`), `hooks` what aiosmtpd calls in it, `verbs` the
shadow verbs, `authentication` identifies clients and decides what they may do, `acceptance` decides about a message between its
final dot and the reply. `chunking` takes messages that come with BDAT; `eager_start` and `prefixed_methods` help `fast_smtp`.
"""
