"""The history: its events, and the secrets that it leaves out."""
