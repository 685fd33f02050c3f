"""Where the harness may connect to and listen: this machine alone, and what the user allows by name."""

from collections.abc import Iterable

from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.parts import is_loopback


def check_hosts(candidates: Iterable[Candidate], allowed: Iterable[str]) -> None:
    """Raise CandidateError for the first address of a candidate that is neither loopback nor allowed."""
    known = frozenset(allowed)
    for candidate in candidates:
        for use, address in candidate.its_kind.elsewhere(candidate).items():
            if not is_loopback(address.host) and address.host not in known:
                raise CandidateError(
                    f"--candidate {candidate.name}: {use} is {address.host}, which is not this machine; "
                    f"with --allow-hosts {address.host} the harness connects to it"
                )
