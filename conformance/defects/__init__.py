"""Testing the tester: runs the reference with one named defect after another, and finds out which checks notice each.

`plan` says in which cells a defect is tried, `trial` runs such cells, `table` gathers what came of all and checks it for gaps,
and `page` formats docs/defects.md. The defects themselves are the reference's (`conformance.reference.defects`).
"""
