"""Readers of users' files: edges, labels, features.

`read` is the way in. Text goes through `blocks` (bytes of a file), `dialect` (what the first lines say), `tokenizer`
(the kernel that finds fields), `interning` (names to codes) and `numbering` (integer ids to numbers).
"""
