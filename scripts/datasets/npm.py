"""Convert dependent-packages-2.2.2.tgz to the two files in npm_deps/.

https://registry.npmjs.org/dependent-packages/-/dependent-packages-2.2.2.tgz
"""

import gzip
import io
import json
import tarfile
from pathlib import Path

pairs = set()
with tarfile.open("dependent-packages-2.2.2.tgz") as outer:
    for part in ("dependents", "devDependents"):  # two archives in the archive, a file per package
        inner = io.BytesIO(outer.extractfile(f"package/{part}.tgz").read())
        with tarfile.open(fileobj=inner) as files:
            for file in files:
                if file.isfile() and file.name.endswith(".json"):
                    needed = file.name.removeprefix(f"{part}/").removesuffix(".json")
                    pairs.update((user, needed) for user in json.load(files.extractfile(file)))
names = sorted({name for pair in pairs for name in pair})
number = {name: place for place, name in enumerate(names)}
folder = Path("npm_deps")
folder.mkdir(exist_ok=True)
with gzip.open(folder / "npm_deps_2016-12.names.txt.gz", "wt", encoding="utf-8") as out:
    out.writelines(json.dumps(name) + "\n" for name in names)
with gzip.open(folder / "npm_deps_2016-12.edges.txt.gz", "wt", encoding="utf-8") as out:
    out.writelines(f"{number[user]}\t{number[needed]}\n" for user, needed in sorted(pairs))
