"""Where blocks of work run: threads or processes of this machine, or a Ray cluster.

`Engine.map(task, blocks)` is all that the layers above know. Results come in the order of the blocks, and a task
depends on its block alone, so that results are the same for any engine and any number of workers.
"""

from cge.engine.engine import Engine, make_engine
from cge.engine.local import LocalEngine
from cge.engine.ray_cluster import RayEngine

__all__ = ["Engine", "LocalEngine", "RayEngine", "make_engine"]
