"""The page that an aggregation writes: its template, its style, its script, all in one HTML file.
It asks nothing of the network, and shows what came over the wire only escaped.
"""
