"""Keep pytest from collecting the stored files of earlier versions, which are data."""

collect_ignore_glob = ["[0-9]*"]
