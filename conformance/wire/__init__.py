"""What touches sockets on the harness's side: links that record and break, the sender, the sinks.
SMTP grammar and dialects turn bytes into the events of conformance.history.
"""
