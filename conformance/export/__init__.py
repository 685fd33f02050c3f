"""Export of stored cells for other tools: Wireshark (`pcapng`), Perfetto (`perfetto`), and as a scenario (`scenario`)."""
