"""The results site: servers, their versions and requirements over many runs, as static pages, a feed and badges.

`model` computes what is shown from the tables of an aggregation, `pages` writes the site, `feed` the Atom feed.
"""
