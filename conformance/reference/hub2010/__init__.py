"""Shadow redundancy of Exchange 2010 Hub and Edge Transport servers, in which the sender keeps the shadow (EX2010).

The sender says XSHADOW and keeps what it has sent (the *shadow*) in a shadow queue until the next hop, now the *primary* of the
message, reports that it has passed the message on (`outbound`, `verbs`, `shadow_queues`). `manager` queries that and resubmits
the shadows of a failed next hop. A sender that keeps no shadow gets its acknowledgement late instead (`delayed_acknowledgement`).
`completion` replaces what begins with 2013.
"""
