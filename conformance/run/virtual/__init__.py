"""Virtual time on real loopback sockets: an event loop whose clock jumps when nothing is ready or in flight.

`loop` decides when to jump, `tracking_loop` and `transport` replace asyncio's and track every socket, `in_flight` finds what
the kernel has not delivered yet, and `asyncio_compat` checks the private names of asyncio on which all this depends.
"""
