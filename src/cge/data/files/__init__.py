"""Readers of users' files: edges, labels, features.

`graph_files` and `node_tables` are the entry points, `formats` lists the file formats. Text goes through `blocks`
(bytes of a file), `dialect` (inferred from the first lines), `tokenizer` (the kernel of fields) and `numbering` (names
and integer ids to numbers); `table` also reads Parquet, `arrays` NumPy's formats. `edge_summary` describes how a file
was read. Messages mention options as parameters of a `cge.errors.Message`, which the command line spells as flags.
"""
