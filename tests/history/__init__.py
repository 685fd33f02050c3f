"""The history: its events and its recorder."""
