"""Stored cells in the formats of tools that people have: Wireshark (`pcapng`), Perfetto (`perfetto`), a scenario of talks."""
