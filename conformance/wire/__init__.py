"""What touches sockets on the harness's side: `links` record and break, `sender` and `talk` speak, `sinks` take.

`grammar` and `dialects` turn octets into the events of conformance.history; `faults`, `partitions` and `moments` say
what happens to them on the way. Everything runs in one event loop, on loopback only, in virtual time as in real.
"""
