"""The data sets of the literature: `catalog` lists them, `load` loads one by name, `fetch` finds its files."""
