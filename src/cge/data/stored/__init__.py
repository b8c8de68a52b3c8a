"""Stored graphs: folders of memory-mapped arrays, written by `ingest` in bounded memory, opened at once.

`ingest` reads edge files in chunks (`edge_chunks`), numbers ids by merging sorted runs (`id_runs`), sorts entries by
blocks of rows (`row_blocks`) and writes features as column slabs (`feature_slabs`). `folder` opens the result.
"""

from cge.data.stored.folder import StoredGraph, is_stored_graph, open_graph
from cge.data.stored.ingest import ingest

__all__ = ["StoredGraph", "ingest", "is_stored_graph", "open_graph"]
