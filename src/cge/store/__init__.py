"""Models and checkpoints on disk: a folder of one safetensors file and one JSON file, never a pickle.

`folder` writes and reads a complete state; `manifest` is its JSON file. `atomic` writes files under temporary names,
moves them into place and keeps writers apart. `packing` turns graphs, node ids and classes into plain arrays and back.
"""

from cge.store.folder import Stored, read_folder, write_folder
from cge.store.manifest import metadata_field, metadata_record
from cge.store.packing import pack_graph, pack_values, unpack_graph, unpack_values

__all__ = [
    "Stored",
    "metadata_field",
    "metadata_record",
    "pack_graph",
    "pack_values",
    "read_folder",
    "unpack_graph",
    "unpack_values",
    "write_folder",
]
