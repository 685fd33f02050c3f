"""Testing the tester: the reference made wrong in one named way after another, and what the checks make of each.

`plan` says which cells may show a defect, `trial` runs one of them, `table` is what came of all and what is missing in
it, `page` is the table for people. The defects themselves are the reference's.
"""
