"""The data sets of the literature: `catalog` lists them, `load` loads one by name, `fetch` finds its files.

`checksums` verifies them, and `pickles` reads those of Planetoid without running anything in them.
"""
