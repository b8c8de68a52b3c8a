"""The data sets of the literature: `entries` lists them, `load` loads one by name, `fetch` finds its files.

`pickles` reads Planetoid's files without running any of them.
"""
