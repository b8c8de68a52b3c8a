"""Convert Debian's package index, Packages.xz, to the two tables in debian_pkgs/.

All alternatives of a dependency (`a | b`) count; names that no package has are omitted.
https://deb.debian.org/debian/dists/bookworm/main/binary-amd64/Packages.xz
"""

import gzip
import lzma
import re
from pathlib import Path

packages: dict[str, dict[str, str]] = {}
fields: dict[str, str] = {}
with lzma.open("Packages.xz", "rt", encoding="utf-8") as index:
    for line in index:
        if line == "\n":
            packages[fields["Package"]], fields = fields, {}
        elif not line.startswith((" ", "\t")):
            name, _, value = line.partition(":")
            fields[name] = value.strip()
names = sorted(packages)
number = {name: place for place, name in enumerate(names)}
folder = Path("debian_pkgs")
folder.mkdir(exist_ok=True)
with gzip.open(folder / "debian12_packages.nodes.tsv.gz", "wt", encoding="utf-8") as out:
    out.write("id\tname\tsection\tsource\tdescription\ttags\n")
    for place, name in enumerate(names):
        row = (packages[name].get(key, "") for key in ("Section", "Source", "Description", "Tag"))
        out.write("\t".join([str(place), name, *row]) + "\n")
with gzip.open(folder / "debian12_packages.edges.tsv.gz", "wt", encoding="utf-8") as out:
    for name in names:
        for kind in ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances"):
            entries = re.split("[,|]", packages[name].get(kind, ""))
            for other in dict.fromkeys(re.split(r"[ (:\[]", entry.strip())[0] for entry in entries):
                if other in number and other != name:
                    out.write(f"{number[name]}\t{number[other]}\t{kind}\n")
