"""The sequence diagram of a cell, in four steps.

`rows` turns events into rows and folds routine exchanges; `condensing` folds repeated stretches and shortens long
diagrams; `layout` computes positions in CSS pixels; `svg` draws a section. `conformance.report.cell_page` puts the whole
diagram into a page, and `excerpt` makes a small SVG file of the rows around the evidence.
"""
