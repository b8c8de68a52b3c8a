"""Convert the CSV of visPubNetwork to vispub/nodes.tsv and vispub/edges.tsv; papers without citations are omitted.

https://github.com/john-guerra/visPubNetwork: `IEEE VIS papers 1990-2015 - Main dataset.csv`
"""

import csv
from pathlib import Path

with Path("IEEE VIS papers 1990-2015 - Main dataset.csv").open(encoding="utf-8", newline="") as file:
    papers = {row["Paper DOI"]: row for row in csv.DictReader(file)}
cites = {doi: dict.fromkeys(row["References"].split(";")) for doi, row in papers.items()}
pairs = [(doi, other) for doi in papers for other in cites[doi] if other in papers and other != doi]
joined = {doi for pair in pairs for doi in pair}
number = {doi: place for place, doi in enumerate(doi for doi in papers if doi in joined)}
folder = Path("vispub")
folder.mkdir(exist_ok=True)
with (folder / "nodes.tsv").open("w", encoding="utf-8") as out:
    out.write("id\tdoi\tvenue\tyear\ttitle\n")
    for doi, place in number.items():
        row = papers[doi]
        title = " ".join(row["Paper Title"].split())
        out.write(f"{place}\t{doi}\t{row['Conference']}\t{row['Year']}\t{title}\n")
with (folder / "edges.tsv").open("w", encoding="utf-8") as out:
    out.writelines(f"{number[citing]}\t{number[cited]}\n" for citing, cited in pairs)
