"""Virtual time on real loopback sockets: an event loop whose clock jumps when nothing is ready or in flight.

`loop` decides when to jump, `tracking_loop` and `transport` are asyncio's with every socket tracked, `in_flight` finds what the
kernel has not delivered yet, and `asyncio_compat` checks the private names of asyncio on which all this depends.
"""
