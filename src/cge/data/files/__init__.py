"""Readers of users' files: edges, labels, features.

`read` is the way in. Text goes through `blocks` (bytes of a file), `dialect` and `delimiter` (what the first lines
say), `tokenizer` (the kernel that finds fields), `interning` (names to codes) and `numbering` (integer ids to numbers);
`tables` reads Parquet, `arrays` NumPy's formats. `reading` tells how a file was read. Messages mention options
as parameters of a `cge.errors.Message`, which the command line spells as flags.
"""
