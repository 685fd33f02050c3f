"""How many random plans it takes to catch each published defect, and which ways of drawing plans take fewest.

`trial` runs one plan on the reference with one defect, `campaign` decides which are run in which order, `store` keeps the results, so that
the next call goes on, and `page` writes reports/exploration-table.md. `python -m conformance.detection` does all of it.
"""
