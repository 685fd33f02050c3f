"""The kept files are data: what is collected here is tests."""

collect_ignore_glob = ["[0-9]*"]
