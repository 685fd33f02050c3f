"""The smuggling matrix: whether a message with a variant of the end of content stays one message from a relay to a receiver.

A server that ends content at CRLF . CRLF only may still pass on octets at which its next hop ends the message. So each variant is
sent through every pair of servers: `matrix` starts them and looks at what comes out, `page` shows it.
"""
