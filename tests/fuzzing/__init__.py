"""Damaged files for every reader: `damage` makes them, `targets` and `models` say what is read, `one` reads one.

`scripts/fuzz.py` runs millions of them; `tests/property/test_fuzz_property.py` runs a slice in `./test`.
"""
