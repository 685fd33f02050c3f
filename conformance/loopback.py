"""Whether an address is this machine's own: the harness connects to no other host unless the user allows it.

`conformance probe`, `conformance listen` and candidates of the kind remote ask this.
"""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or `localhost`. Other names are False: no name is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
