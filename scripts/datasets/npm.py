"""Convert dependent-packages-2.2.2.tgz to the two files in npm_deps/.

https://registry.npmjs.org/dependent-packages/-/dependent-packages-2.2.2.tgz
"""

import gzip
import io
import json
import tarfile
from pathlib import Path

pairs: set[tuple[str, str]] = set()
with tarfile.open("dependent-packages-2.2.2.tgz") as outer:
    for part in ("dependents", "devDependents"):  # two archives in the archive, one file per package
        archive = outer.extractfile(f"package/{part}.tgz")
        assert archive is not None
        with tarfile.open(fileobj=io.BytesIO(archive.read())) as members:
            for member in members:
                file = members.extractfile(member) if member.name.endswith(".json") else None
                if file is not None:
                    needed = member.name.removeprefix(f"{part}/").removesuffix(".json")
                    pairs.update((user, needed) for user in json.load(file))
names = sorted({name for pair in pairs for name in pair})
number = {name: place for place, name in enumerate(names)}
folder = Path("npm_deps")
folder.mkdir(exist_ok=True)
with gzip.open(folder / "npm_deps_2016-12.names.txt.gz", "wt", encoding="utf-8") as out:
    out.writelines(json.dumps(name) + "\n" for name in names)
with gzip.open(folder / "npm_deps_2016-12.edges.txt.gz", "wt", encoding="utf-8") as out:
    out.writelines(f"{number[user]}\t{number[needed]}\n" for user, needed in sorted(pairs))
