"""A cell's sessions as a capture file that Wireshark and tshark open (pcapng, draft-ietf-opsawg-pcapng).

`conformance export --format pcapng` calls `as_pcapng`. A *segment* is one TCP segment that `segments` makes of an event; it
becomes a *packet*. A file consists of *blocks*, which may have comments as *options*. Packet times are the cell's start plus
documented time. The section's comment has the cell's node id, its sentence and the command that repeats it. Effects of faults,
and the evidence of verdicts that are neither a pass nor not applicable, are comments of packets.
"""

import io
import struct
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

import dpkt
from dpkt import pcapng

from conformance.export.segments import Addresses, Segment, tcp_segments
from conformance.history.events import FaultFired
from conformance.results.reader import StoredCell
from conformance.verdicts import Outcome

_RAW_IP = 101
"""LINKTYPE_RAW: packets begin with the IP header."""
_NAME_RESOLUTION_BLOCK, _IPV4_RECORD = 4, 1
"""Type numbers of the format, which dpkt lacks."""
_MAX_COMMENT = 60_000
"""Octets: an option has two octets for its length."""


def as_pcapng(cell: StoredCell) -> bytes:
    """Return the capture file of a cell; a cell without sessions and failed connections gives a file without packets."""
    began = datetime.fromisoformat(cell.header.started).timestamp()
    addresses = Addresses()
    packets = list(tcp_segments(cell))
    comments = _comments_by_packet(cell, packets)
    octets = io.BytesIO()
    section_comment = (
        f"{cell.header.nodeid}\n{cell.footer.sentence if cell.footer else 'cut short'}\n{cell.header.repeat}"
    )
    section = pcapng.SectionHeaderBlockLE(opts=_comment_options(section_comment))
    interface = pcapng.InterfaceDescriptionBlockLE(linktype=_RAW_IP, snaplen=0)
    writer = pcapng.Writer(octets, shb=section, idb=interface)
    pairs = [(segment, _ip_packet(segment, addresses)) for segment in packets]  # assigns the addresses
    octets.write(_name_resolution_block(addresses.by_host_name))
    for number, (segment, packet) in enumerate(pairs):
        own_comments = filter(None, [segment.comment, *comments.get(number, ())])
        block = pcapng.EnhancedPacketBlockLE(
            caplen=len(packet), pkt_len=len(packet), pkt_data=packet, opts=_comment_options(*own_comments)
        )
        writer.writepkt(block, ts=began + segment.t)
    return octets.getvalue()


def _ip_packet(segment: Segment, addresses: Addresses) -> bytes:
    """Return a segment as an IPv4 packet; `addresses` assigns an address to an endpoint that has none yet."""
    tcp = dpkt.tcp.TCP(
        sport=segment.source_port, dport=segment.destination_port, seq=segment.sequence, ack=segment.acknowledged,
        flags=segment.flags, win=65535, data=segment.data,
    )  # fmt: skip
    source, destination = addresses.address_of(segment.source), addresses.address_of(segment.destination)
    return bytes(dpkt.ip.IP(src=source, dst=destination, p=dpkt.ip.IP_PROTO_TCP, ttl=64, data=tcp))


def _comment_options(*comments: str) -> list[pcapng.PcapngOptionLE]:
    """Return comments as the options of a block, each cut at `_MAX_COMMENT` octets; no options for no comments."""
    if not comments:
        return []
    octets = [comment.encode("utf-8", "replace")[:_MAX_COMMENT] for comment in comments]
    options = [pcapng.PcapngOptionLE(code=pcapng.PCAPNG_OPT_COMMENT, data=data) for data in octets]
    return [*options, pcapng.PcapngOptionLE(code=pcapng.PCAPNG_OPT_ENDOFOPT, length=0)]


def _name_resolution_block(addresses: Mapping[str, bytes]) -> bytes:
    """Return the block that names these addresses, by host name (in Wireshark: View, Name Resolution)."""
    records = b""
    for name, address in addresses.items():
        value = address + name.encode("utf-8", "replace") + b"\0"
        records += struct.pack("<HH", _IPV4_RECORD, len(value)) + value + b"\0" * (-len(value) % 4)
    body = records + struct.pack("<HH", 0, 0)
    length = len(body) + 12
    return struct.pack("<II", _NAME_RESOLUTION_BLOCK, length) + body + struct.pack("<I", length)


def _comments_by_packet(cell: StoredCell, packets: list[Segment]) -> Mapping[int, list[str]]:
    """Return comments for fired faults and for the evidence of verdicts, by the index of the packet in `packets`.

    Only verdicts with the outcome fail, error or inconclusive have comments. A comment belongs to the last packet that is not
    later than the event; without such a packet to the first. Without packets there are no comments.
    """
    comments: list[tuple[int, str]] = [
        (event.n, f"fault {event.fault}: {event.action} {event.detail}".strip())
        for event in cell.events
        if isinstance(event, FaultFired)
    ]
    for verdict in cell.verdicts:
        if verdict.outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE):
            comments += [(n, f"{verdict.outcome.value}: {verdict.sentence}") for n in verdict.evidence]
    by_packet: dict[int, list[str]] = defaultdict(list)
    index = -1
    for n, comment in sorted(comments):
        while index + 1 < len(packets) and packets[index + 1].n <= n:
            index += 1
        if packets:
            by_packet[max(index, 0)].append(comment)
    return by_packet
