"""One module for each kind of candidate."""
