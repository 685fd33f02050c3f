"""Where the harness may connect to and listen: this machine alone, and what the user allows by name."""

import ipaddress
from collections.abc import Iterable

from conformance.candidates.description import Candidate, CandidateError


def is_loopback(host: str) -> bool:
    """Whether a host is this machine as nobody else sees it. Of names only `localhost` is: no name is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_hosts(candidates: Iterable[Candidate], allowed: Iterable[str]) -> None:
    """Raise CandidateError for the first address of a candidate that is neither loopback nor allowed."""
    known = frozenset(allowed)
    for candidate in candidates:
        for use, addresses in (("addresses", candidate.addresses), ("next-hops", candidate.next_hops)):
            for name, address in addresses.items():
                if not is_loopback(address.host) and address.host not in known:
                    raise CandidateError(
                        f"--candidate {candidate.name}: {use}.{name} is {address.host}, which is not this machine; "
                        f"with --allow-hosts {address.host} the harness connects to it"
                    )
