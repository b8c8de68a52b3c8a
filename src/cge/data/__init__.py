"""How graphs come in: files of the common formats and the data sets of the literature."""
