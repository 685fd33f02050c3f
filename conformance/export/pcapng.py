"""A cell's conversations as a capture file that Wireshark and tshark open (pcapng, draft-ietf-opsawg-pcapng).

Times are documented time, from when the cell began. The section's comment says which cell it is and how to repeat it; what a
fault did and what a verdict rests on are comments of packets.
"""

import io
import struct
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

import dpkt
from dpkt import pcapng

from conformance.export.segments import Addresses, Segment, segments
from conformance.history.events import FaultFired
from conformance.results.reader import StoredCell
from conformance.verdicts import Outcome

_RAW_IP = 101
"""LINKTYPE_RAW: packets begin with the IP header."""
_NAMES, _IPV4 = 4, 1
"""The type of a block of name resolution, and of its records for IPv4."""


def as_pcapng(cell: StoredCell) -> bytes:
    """Return the whole file. A cell without a session makes a file without packets."""
    began = datetime.fromisoformat(cell.header.started).timestamp()
    addresses = Addresses()
    packets = list(segments(cell))
    remarks = _remarks(cell, packets)
    octets = io.BytesIO()
    about = f"{cell.header.nodeid}\n{cell.footer.sentence if cell.footer else 'cut short'}\n{cell.header.repeat}"
    section = pcapng.SectionHeaderBlockLE(opts=_options(about))
    interface = pcapng.InterfaceDescriptionBlockLE(linktype=_RAW_IP, snaplen=0)
    writer = pcapng.Writer(octets, shb=section, idb=interface)
    pairs = [(packet, _packet(packet, addresses)) for packet in packets]
    octets.write(_names(addresses.given))
    for number, (segment, packet) in enumerate(pairs):
        comments = [segment.comment, *remarks.get(number, ())]
        block = pcapng.EnhancedPacketBlockLE(
            caplen=len(packet), pkt_len=len(packet), pkt_data=packet, opts=_options(*filter(None, comments))
        )
        writer.writepkt(block, ts=began + segment.t)
    return octets.getvalue()


def _packet(segment: Segment, addresses: Addresses) -> bytes:
    tcp = dpkt.tcp.TCP(
        sport=segment.source_port, dport=segment.destination_port, seq=segment.sequence, ack=segment.acknowledged,
        flags=segment.flags, win=65535, data=segment.data,
    )  # fmt: skip
    source, destination = addresses.of(segment.source), addresses.of(segment.destination)
    return bytes(dpkt.ip.IP(src=source, dst=destination, p=dpkt.ip.IP_PROTO_TCP, ttl=64, data=tcp))


def _options(*comments: str) -> list[pcapng.PcapngOptionLE]:
    if not comments:
        return []
    made = [pcapng.PcapngOptionLE(code=pcapng.PCAPNG_OPT_COMMENT, data=_text(comment)) for comment in comments]
    return [*made, pcapng.PcapngOptionLE(code=pcapng.PCAPNG_OPT_ENDOFOPT, length=0)]


def _text(comment: str) -> bytes:
    return comment.encode("utf-8", "replace")[:60_000]


def _names(given: Mapping[str, bytes]) -> bytes:
    """Return a block that names the addresses: in Wireshark, "View, Name Resolution"."""
    records = b""
    for name, address in given.items():
        value = address + name.encode("utf-8", "replace") + b"\0"
        records += struct.pack("<HH", _IPV4, len(value)) + value + b"\0" * (-len(value) % 4)
    body = records + struct.pack("<HH", 0, 0)
    length = len(body) + 12
    return struct.pack("<II", _NAMES, length) + body + struct.pack("<I", length)


def _remarks(cell: StoredCell, packets: list[Segment]) -> Mapping[int, list[str]]:
    """Return what faults did and what verdicts rest on, by the packet: the last that is not after the event."""
    said: list[tuple[int, str]] = [
        (event.n, f"fault {event.fault}: {event.action} {event.detail}".strip())
        for event in cell.events
        if isinstance(event, FaultFired)
    ]
    for verdict in cell.verdicts:
        if verdict.outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE):
            said += [(n, f"{verdict.outcome.value}: {verdict.sentence}") for n in verdict.evidence]
    remarks: dict[int, list[str]] = defaultdict(list)
    place = -1
    for n, text in sorted(said):
        while place + 1 < len(packets) and packets[place + 1].n <= n:
            place += 1
        if packets:
            remarks[max(place, 0)].append(text)
    return remarks
