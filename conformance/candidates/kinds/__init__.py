"""The kinds of candidates: `local` has those that the harness starts itself, `remote` the server that runs already."""
