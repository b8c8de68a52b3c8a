"""Models and checkpoints on disk: a folder of one safetensors file and one JSON file, never a pickle.

`folder` is the way in: it commits a whole state at once and reads only whole states. `manifest` is the JSON file,
`tensors` the other one, `files` the system calls between. `graphs` and `values` turn graphs, node ids and classes into
plain arrays and back.
"""

from cge.store.folder import Stored, read_folder, write_folder
from cge.store.graph_arrays import pack_graph, unpack_graph
from cge.store.values import pack_ids, pack_values, unpack_ids, unpack_values

__all__ = [
    "Stored",
    "pack_graph",
    "pack_ids",
    "pack_values",
    "read_folder",
    "unpack_graph",
    "unpack_ids",
    "unpack_values",
    "write_folder",
]
