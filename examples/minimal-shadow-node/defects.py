"""Mistakes that the node makes on purpose, one at a time: `--defect NAME`. They show what the harness finds."""

DEFECTS = {
    # name: (the row that it breaks, what it does)
    "acknowledges-first": ("SR-CRE-01", "answers 250 and has the copy made afterwards"),
    "makes-no-copies": ("SR-CRE-01", "has no copy made of anything"),
    "no-copy-of-submissions": ("SR-CRE-07", "has no copy made of what a mailbox submits"),
    "copy-changes-content": ("SR-CRE-06", "drops the last line of a copy"),
    "copy-lacks-a-recipient": ("SR-CRE-06", "leaves out the last of several recipients of a copy"),
    "copies-are-in-memory": ("SR-CRE-04", "acknowledges a copy before it is on disk"),
    "delivers-copies": ("SR-CRE-11", "delivers a copy as soon as it has it"),
    "two-copies": ("SR-CRE-09", "has a copy made by two servers"),
    "copies-anywhere": ("SR-BND-01", "has copies made by servers outside of its boundary"),
    "off-is-on": ("SR-ENA-02", "has copies made though ShadowRedundancyEnabled is false"),
    "rejects-though-optional": ("SR-ENA-03", "answers 451 when no copy could be made, whatever is configured"),
    "accepts-though-mandatory": ("SR-ENA-04", "answers 250 when no copy could be made, whatever is configured"),
    "prefers-local": ("SR-PRF-01", "tries members of its own site first"),
    "one-attempt": ("SR-PRF-04", "tries one server only"),
    "offers-on-frontend": ("SR-WIR-01", "offers XSHADOWREQUEST on the frontend"),
    "answers-anybody": ("SR-WIR-02", "answers XQDISCARD with the notifications of the server that is named in it"),
    "malformed-is-503": ("SR-WIR-03", "answers malformed arguments with 503 and closes"),
    "ignores-max": ("SR-WIR-04", "puts all notifications into one reply"),
    "forgets-at-once": ("SR-WIR-05", "forgets a notification as soon as it is in a reply"),
    "one-discard-for-all": ("SR-WIR-06", "lets all copies of a primary go at any notification"),
    "notifies-at-acceptance": ("SR-MNT-01", "queues the notification when it accepts a message"),
    "never-asks": ("SR-MNT-03", "opens no session to ask for notifications"),
    "asks-alone-only": ("SR-MNT-02", "does not ask in sessions that it opens for other mail"),
    "notifications-in-memory": ("SR-MNT-05", "forgets its notifications when it ends"),
    "never-takes-over": ("SR-MNT-09", "never takes over what a silent primary had"),
    "takes-over-early": ("SR-MNT-10", "takes copies over at the first heartbeat that fails"),
    "blind-to-new-database": ("SR-MNT-11", "does not notice that a primary has lost its queue"),
    "keeps-notifications": ("SR-MNT-12", "never deletes notifications that nobody asks for"),
    "first-fork-releases": ("SR-MNT-07", "queues the notification when the first next hop has the message"),
    "remembers-message-ids-only": ("SR-DUP-02", "takes two messages with one Message-ID for one, whatever their Date"),
}

_active = ""


def switch_on(name: str) -> None:
    """Make a mistake from now on. Raises SystemExit for an unknown one."""
    global _active
    if name and name not in DEFECTS:
        raise SystemExit(f"--defect {name}: there are {', '.join(DEFECTS)}")
    _active = name


def broken(name: str) -> bool:
    """Whether this mistake is made."""
    assert name in DEFECTS
    return _active == name
