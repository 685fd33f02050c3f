"""Candidates: the servers under test. A candidate is a YAML description of how a server is run and what it claims to support.

- `description`: the model of a description, and how a file is read; `fields` has its fields, `kinds/` those of one kind only.
- `lookup`: which candidate a `--candidate` names; `assignment`: which candidate plays which server of a topology.
- `cell_needs`: what a scenario's cell needs of each server, and which candidates do not have it.
- `availability`: whether a candidate's programs are on this machine; `placeholders`: the templates in a description.

Starting a server from its description belongs to `conformance.nodes`. The descriptions that come with the harness are in
`fixtures/candidates`; `conformance schema candidate` prints the schema.
"""
