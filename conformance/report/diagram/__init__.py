"""The sequence diagram of a cell: `rows` decides what is drawn and what is folded, `layout` where (pure geometry),
`svg` draws it, and `page` puts it into one self-contained HTML page with its text alternative.
"""
