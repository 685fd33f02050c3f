"""Mutation testing: the reference is changed in one place, by an automatic operator, and the corpus must notice.

The defects of the reference (`conformance.reference.defects`) are written by hand, beside the checks. Mutants are not: they show
which mistakes of a kind that no author thought of are missed. `operators` makes them, `differences` finds the cells in which each
makes a difference, `trial` runs a mutant in these cells, and `pins` has the mutants that cannot or need not be noticed.
"""
