"""A folder as a data set: its files, their formats, and the messages for wrong ones."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cge.data import Split, load_folder, read_graph, read_labels
from cge.errors import CgeError, FileFormatError, InputError, UnknownNodeError

EDGES = "source,target\nann,bob\nbob,cy\ncy,dan\n"
LABELS = "node,label\nann,red\ncy,blue\ndan,red\n"
SPLIT = "node,role\nann,train\ncy,validation\ndan,test\n"


def folder(path: Path, **files: str) -> Path:
    """Write files of text; `edges__csv` is edges.csv, `labels__tsv__gz` is labels.tsv.gz, packed."""
    path.mkdir(exist_ok=True)
    for key, text in files.items():
        name = key.replace("__", ".")
        data = text.encode()
        (path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def people(path: Path, **files: str) -> Path:
    return folder(path / "people", **{"edges__csv": EDGES, "labels__csv": LABELS, **files})


def refused(path: Any, error: type[CgeError] = FileFormatError) -> str:
    with pytest.raises(error) as caught:
        load_folder(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---------------------------------------------------------------------- what is read


def test_edges_and_labels(tmp_path: Path) -> None:
    data = load_folder(people(tmp_path))
    assert data.name == "people"
    assert data.graph.node_ids.tolist() == ["ann", "bob", "cy", "dan"]
    assert data.graph.num_edges == 3
    assert data.graph.features is None
    assert data.class_names == ("blue", "red")
    assert data.labels.tolist() == [1, -1, 0, 1]
    assert not data.multilabel
    assert (data.split, data.splits) == (None, ())
    assert data.notes == "read from edges.csv, labels.csv"


def test_everything(tmp_path: Path) -> None:
    root = people(
        tmp_path,
        nodes__txt="node\neve\ndan\ncy\nbob\nann\n",
        features__tsv="node\tage\neve\t5\nann\t1\nbob\t2\ncy\t3\ndan\t4\n",
        split__csv=SPLIT,
    )
    data = load_folder(root)
    assert data.graph.node_ids.tolist() == ["eve", "dan", "cy", "bob", "ann"]
    assert data.graph.neighbors("eve") == []
    assert np.asarray(data.graph.features).tolist() == [[5], [4], [3], [2], [1]]
    assert data.labels.tolist() == [-1, 1, 0, -1, 1]
    assert data.split == Split([4], [2], [1])
    assert data.splits == (data.split,)
    assert repr(data) == ("Dataset(people: 5 nodes, 3 edges, 2 classes, 3 labeled nodes, 1 features, split 1/1/1)")


def test_isolated_nodes_may_be_labeled_and_tested(tmp_path: Path) -> None:
    labels = LABELS + "eve,blue\n"
    root = people(tmp_path, nodes__csv="ann\nbob\ncy\ndan\neve\n", labels__csv=labels, split__csv="eve,test\n")
    data = load_folder(root)
    assert data.graph.neighbors("eve") == []
    assert data.labels.tolist() == [1, -1, 0, 1, 0]
    assert data.split == Split([], [], [4])


def test_integer_ids_with_gaps(tmp_path: Path) -> None:
    root = folder(
        tmp_path, edges__txt="30 10\n10 -4\n", labels__txt="10 b\n-4 a\n30 b\n", split__txt="30 train\n-4 test\n"
    )
    data = load_folder(root)
    assert data.graph.node_ids.tolist() == [-4, 10, 30]
    assert data.labels.tolist() == [0, 1, 1]
    assert data.split == Split([2], [], [0])


def test_same_as_the_readers(tmp_path: Path) -> None:
    root = people(tmp_path)
    data, graph = load_folder(root), read_graph(root / "edges.csv")
    labels, names = read_labels(root / "labels.csv", graph)
    assert data.labels.tolist() == labels.tolist()
    assert data.class_names == names


@pytest.mark.parametrize(
    ("written", "names"),
    [(("10", "9", "2"), ("2", "9", "10")), (("b", "10", "9"), ("10", "9", "b")), (("é", "Z", "a"), ("Z", "a", "é"))],
)
def test_class_names_ascend(written: tuple[str, ...], names: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(f"{node},{label}\n" for node, label in zip(("ann", "bob", "cy"), written, strict=True))
    data = load_folder(people(tmp_path, labels__csv="node,label\n" + rows))
    assert data.class_names == names
    assert [data.class_names[label] for label in data.labels[:3]] == list(written)


def test_several_labels(tmp_path: Path) -> None:
    root = people(tmp_path, labels__csv=LABELS + "ann,blue\nann,red\n", split__csv=SPLIT)
    data = load_folder(root)
    assert data.multilabel
    assert data.labels.tolist() == [[1, 1], [0, 0], [1, 0], [0, 1]]
    assert data.class_names == ("blue", "red")
    assert data.split == Split([0], [2], [3])
    assert "several labels, as in line 5 of labels.csv" in data.notes
    labels, _ = read_labels(root / "labels.csv", data.graph, multilabel=True)
    assert np.array_equal(labels, data.labels)


def test_duplicate_rows_count_once(tmp_path: Path) -> None:
    data = load_folder(people(tmp_path, labels__csv=LABELS + "ann,red\n", split__csv=SPLIT + "ann,train\n"))
    assert data.labels.tolist() == [1, -1, 0, 1]
    assert data.split == Split([0], [2], [3])


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), min_size=1))
@settings(max_examples=40, deadline=None)
def test_labels_are_the_rows(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, str]]) -> None:
    rows = "".join(f"{node},{label}\n" for node, label in pairs)
    root = folder(
        tmp_path_factory.mktemp("drawn"), edges__csv="0,1\n1,2\n2,3\n3,4\n4,5\n", labels__csv="node,label\n" + rows
    )
    data = load_folder(root)
    written: dict[int, set[str]] = {}
    for node, label in pairs:
        written.setdefault(node, set()).add(label)
    assert data.class_names == tuple(sorted({label for _, label in pairs}))
    assert data.multilabel == any(len(names) > 1 for names in written.values())
    for node in range(6):
        if data.multilabel:
            read = {name for name, has_label in zip(data.class_names, data.labels[node], strict=True) if has_label}
        else:
            read = {data.class_names[data.labels[node]]} if data.labels[node] >= 0 else set()
        assert read == written.get(node, set())


# ---------------------------------------------------------------------- formats

PAIRS = np.array([[0, 1], [1, 2], [2, 3]])
MATRIX = sp.coo_array((np.ones(6), (np.r_[PAIRS[:, 0], PAIRS[:, 1]], np.r_[PAIRS[:, 1], PAIRS[:, 0]])), shape=(4, 4))


def write_edges(path: Path) -> None:
    text = "".join(f"{source} {target}\n" for source, target in PAIRS.tolist())
    match path.name:
        case "edges.csv" | "edges.tsv" | "edges.csv.gz" | "edges.tsv.gz":
            text = text.replace(" ", "," if ".csv" in path.name else "\t")
            path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        case "edges.parquet":
            pq.write_table(pa.table({"source": PAIRS[:, 0], "target": PAIRS[:, 1]}), path)
        case "edges.npy":
            np.save(path, PAIRS)
        case "edges.npz":
            np.savez(path, edges=PAIRS)
        case "edges.adjacency.npz":
            sp.save_npz(path, MATRIX)
        case "edges.mtx":
            scipy.io.mmwrite(path, MATRIX)
        case _:
            path.write_text(text)


@pytest.mark.parametrize(
    "name",
    [
        "edges.csv",
        "edges.tsv",
        "edges.txt",
        "edges",
        "EDGES.TXT",
        "edges.csv.gz",
        "edges.tsv.gz",
        "edges.parquet",
        "edges.npy",
        "edges.npz",
        "edges.adjacency.npz",
        "edges.mtx",
        "edges.edgelist",
    ],
)
def test_formats_of_edges(name: str, tmp_path: Path) -> None:
    write_edges(tmp_path / name)
    folder(tmp_path, labels__csv="node,label\n0,a\n3,b\n", split__csv="0,train\n3,test\n")
    data = load_folder(tmp_path)
    assert data.graph.node_ids.tolist() == [0, 1, 2, 3]
    assert data.graph.num_edges == 3
    assert data.labels.tolist() == [0, -1, -1, 1]
    assert data.split == Split([0], [], [3])


def test_parquet_throughout(tmp_path: Path) -> None:
    tables: dict[str, dict[str, list[Any]]] = {
        "edges": {"source": ["ann", "bob"], "target": ["bob", "cy"]},
        "nodes": {"id": ["ann", "bob", "cy", "dan"]},
        "features": {"x": [4.0, 3.0, 2.0, 1.0], "node": ["dan", "cy", "bob", "ann"]},
        "labels": {"label": [7, 12, 7], "node": ["ann", "bob", "dan"]},
        "split": {"role": ["test", "train"], "label": [1, 2], "node": ["dan", "ann"]},
    }
    for stem, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{stem}.parquet")
    data = load_folder(tmp_path)
    assert data.graph.node_ids.tolist() == ["ann", "bob", "cy", "dan"]
    assert np.asarray(data.graph.features).ravel().tolist() == [1, 2, 3, 4]
    assert data.class_names == ("7", "12")
    assert data.labels.tolist() == [0, 1, -1, 0]
    assert data.split == Split([0], [], [3])


@pytest.mark.parametrize("sparse", [False, True])
def test_features_in_the_order_of_nodes(sparse: bool, tmp_path: Path) -> None:
    folder(tmp_path, edges__csv="0,1\n1,2\n", labels__csv="0,a\n4,b\n")
    values = np.arange(10.0).reshape(5, 2)
    if sparse:
        sp.save_npz(tmp_path / "features.npz", sp.csr_array(values))
    else:
        np.save(tmp_path / "features.npy", values)
    data = load_folder(tmp_path)
    assert data.graph.num_nodes == 5  # rows beyond the largest id are isolated nodes
    features: Any = data.graph.features
    assert np.array_equal(features.toarray() if sparse else features, values)
    assert data.labels.tolist() == [0, -1, -1, -1, 1]


def test_a_matrix_with_named_rows(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "edges.mtx", MATRIX)
    folder(tmp_path, nodes__txt="ann\nbob\ncy\ndan\n", labels__csv=LABELS)
    assert load_folder(tmp_path).labels.tolist() == [1, -1, 0, 1]


SPLITS = {
    "header": SPLIT,
    "no header": SPLIT.removeprefix("node,role\n"),
    "tabs": SPLIT.replace(",", "\t"),
    "semicolons": SPLIT.replace(",", ";"),
    "columns swapped": "role,node\ntrain,ann\nvalidation,cy\ntest,dan\n",
    "label and split": "id,label,split\nann,red,train\ncy,blue,validation\ndan,red,test\n",
    "own name of nodes": SPLIT.replace("node,role", "person,Split"),
    "own name of roles": SPLIT.replace("node,role", "node,used for"),
    "comments": "# who learns\n\n" + SPLIT,
    "any order": "dan,test\ncy,validation\nann,train\n",
    "quotes": '"ann","train"\n"cy","validation"\n"dan","test"\n',
}


@pytest.mark.parametrize("name", SPLITS)
def test_dialects_of_splits(name: str, tmp_path: Path) -> None:
    assert load_folder(people(tmp_path, split__txt=SPLITS[name])).split == Split([0], [2], [3])


@pytest.mark.parametrize("header", ["", "node,role\n", "paper,role\n", "paper,usage\n"])
def test_splits_of_integer_ids(header: str, tmp_path: Path) -> None:
    root = folder(
        tmp_path, edges__csv="1,5\n5,9\n", labels__csv="1,a\n5,b\n9,a\n", split__csv=header + "9,train\n5,test\n"
    )
    assert load_folder(root).split == Split([2], [], [1])


def test_nodes_named_like_columns(tmp_path: Path) -> None:
    root = folder(
        tmp_path, edges__csv="set,role\nrole,part\n", labels__csv="set,a\nrole,b\n", split__csv="set,train\nrole,test\n"
    )
    assert load_folder(root).split == Split([0], [], [1])


def test_a_split_may_have_a_single_role(tmp_path: Path) -> None:
    assert load_folder(people(tmp_path, split__csv="ann,test\n")).split == Split([], [], [0])


# ---------------------------------------------------------------------- the folder


def test_hidden_files_subfolders_and_other_names_are_ignored(tmp_path: Path) -> None:
    root = people(tmp_path)
    folder(root, __edges__csv="no edges", __split__csv="none", splits__csv="ann", README__md="people")
    (root / "edges").mkdir()
    (root / "split.parquet").mkdir()
    data = load_folder(root)
    assert data.graph.num_edges == 3
    assert data.split is None
    assert data.notes == "read from edges.csv, labels.csv; ignored files: README.md, splits.csv"


@pytest.mark.parametrize("given_as", ["str", "path", "slash", "dot", "parent", "home", "link"])
def test_the_name_is_the_folders(given_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = people(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "friends").symlink_to(root)
    (root / "inner").mkdir()
    monkeypatch.chdir(root / "inner" if given_as == "parent" else root)
    given = {
        "str": str(root),
        "path": root,
        "slash": f"{root}/",
        "dot": ".",
        "parent": "..",
        "home": "~/people",
        "link": tmp_path / "friends",
    }[given_as]
    assert load_folder(given).name == ("friends" if given_as == "link" else "people")


def test_options_say_how_edges_are_read(tmp_path: Path) -> None:
    root = folder(tmp_path, edges__csv="1,2\n2,x\n", labels__csv="1,a\nx,b\n")
    assert "ids='str'" in refused(root)
    data = load_folder(root, ids="str", directed=True)
    assert data.graph.node_ids.tolist() == ["1", "2", "x"]
    assert data.graph.directed
    root = people(tmp_path, labels__csv="% labels\nann,red\n", split__csv="% split\n#x,train\n")
    folder(root, edges__csv="% edges\n#x,ann\n", labels__csv="#x,red\n")
    assert load_folder(root, comment="%").split == Split([0], [], [])


def test_nothing_is_changed(tmp_path: Path) -> None:
    root = people(tmp_path, split__csv=SPLIT)
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    load_folder(root)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", ["edges.pkl", "edges.npy", "edges.npz", "edges.csv", "labels.pickle", "split.pt"])
def test_nothing_is_unpickled(name: str, tmp_path: Path) -> None:
    root, sprung = people(tmp_path), tmp_path / "sprung"
    (root / f"{name.partition('.')[0]}.csv").unlink(missing_ok=True)
    bomb = np.array([Trap(sprung)], object)
    if name.endswith(".npy"):
        np.save(root / name, bomb, allow_pickle=True)
    elif name.endswith(".npz"):
        np.savez(root / name, edges=bomb)
    else:
        (root / name).write_bytes(pickle.dumps(Trap(sprung)))
    message = refused(root)
    assert str(root / name) in message
    assert "pickle" in message or "zero byte" in message
    assert not sprung.exists()


# ---------------------------------------------------------------------- what is refused


def test_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    assert refused(path) == f"{path}: there is no such folder; pass one that contains edges and labels"
    path = people(tmp_path) / "edges.csv"
    assert refused(path) == f"{path}: this is not a folder; pass the folder that contains edges and labels"
    assert "web address" in refused("https://example.org/people", InputError)
    assert "path" in refused("", InputError)
    assert "path" in refused(None, InputError)
    assert "cannot be read" in refused("x" * 5000)


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", closed)
    assert refused(tmp_path) == f"{tmp_path}: this folder cannot be read (Permission denied); pass another"


@pytest.mark.parametrize("stem", ["edges", "labels"])
def test_a_missing_file(stem: str, tmp_path: Path) -> None:
    root = people(tmp_path)
    (root / f"{stem}.csv").unlink()
    other = "labels.csv" if stem == "edges" else "edges.csv"
    assert refused(root) == f"{root}: expected a file of {stem}, found {other}; add one, such as {stem}.csv"


def test_an_empty_folder(tmp_path: Path) -> None:
    folder(tmp_path, __hidden="")
    assert refused(tmp_path) == f"{tmp_path}: expected a file of edges, found nothing; add one, such as edges.csv"
    folder(tmp_path, **{f"page{k}__html": "" for k in range(7)})
    names = "page0.html, page1.html, page2.html, page3.html, page4.html, …"
    assert f"found {names}; add one" in refused(tmp_path)


@pytest.mark.parametrize("stem", ["edges", "labels", "features", "nodes", "split"])
def test_two_files_of_one_kind(stem: str, tmp_path: Path) -> None:
    root = people(tmp_path)
    folder(root, **{f"{stem}__csv": "a,b\n", f"{stem}__tsv__gz": "a\tb\n"})
    names = f"{stem}.csv, {stem}.tsv.gz"
    assert refused(root) == f"{root}: expected one file of {stem}, found 2: {names}; keep one, rename the others"


def test_a_link_to_nothing(tmp_path: Path) -> None:
    root = people(tmp_path)
    (root / "split.csv").symlink_to(root / "gone.csv")
    assert refused(root) == f"{root / 'split.csv'}: there is no such file; check its path"


@pytest.mark.parametrize("name", ["split.npy", "labels.npz", "labels.mtx", "edges.json", "nodes.xlsx"])
def test_a_format_that_is_not_read(name: str, tmp_path: Path) -> None:
    root = people(tmp_path)
    (root / f"{name.partition('.')[0]}.csv").unlink(missing_ok=True)
    folder(root, **{name.replace(".", "__"): "0"})
    assert refused(root).startswith(f"{root / name}: ")


HEADER = ", or call the columns node and role if this line names them"
WRONG_SPLITS = {
    "another word": (
        SPLIT + "bob,val\n",
        ", line 5: expected train, validation or test, found 'val'; write one of these",
    ),
    "another case": (
        "node,role\nann,Train\n",
        ", line 2: expected train, validation or test, found 'Train'; write one of these",
    ),
    "names of columns": (
        "person,usage\nann,train\n",
        f", line 1: expected train, validation or test, found 'usage'; write one of these{HEADER}",
    ),
    "two roles": (
        "# roles\n" + SPLIT + "ann,test\n",
        ", line 6: node 'ann' has the role test, but train in line 3; keep one",
    ),
    "no label": (
        SPLIT + "bob,test\n",
        ", line 5: node 'bob' has the role test, but no label; add one, or remove this row",
    ),
    "one column": (
        "ann\ncy\n",
        ": expected two columns, a node and a role, found one; separate them by a comma or a tab",
    ),
    "no role": ("node,role\nann,train\ncy,\n", ", line 3: the role is empty: 'cy,'"),
    "a field too many": (
        "node,role\nann,train\na label,train,x\n",
        ", line 3: expected 2 columns as in line 1, found 3: 'a label,train,x'",
    ),
    "no rows": ("node,role\n", ": the file has a header but no rows"),
    "empty": ("", ": the file is empty"),
    "roles only": (
        "role,who,whom\ntrain,ann,bob\n",
        ": found a column of roles, but none of nodes; call one of the columns node",
    ),
}


@pytest.mark.parametrize("name", WRONG_SPLITS)
def test_wrong_splits(name: str, tmp_path: Path) -> None:
    text, problem = WRONG_SPLITS[name]
    root = people(tmp_path, split__csv=text)
    assert refused(root) == f"{root / 'split.csv'}{problem}"


def test_no_label_among_several(tmp_path: Path) -> None:
    root = people(tmp_path, labels__csv=LABELS + "ann,blue\n", split__csv="ann,train\nbob,test\n")
    assert "line 2: node 'bob' has the role test, but no label" in refused(root)


def test_integer_nodes_are_shown_as_written(tmp_path: Path) -> None:
    root = folder(tmp_path, edges__csv="1,5\n", labels__csv="1,a\n", split__csv="1,train\n5,test\n")
    assert "line 2: node 5 has the role test" in refused(root)
    folder(root, split__csv="1,train\n1,test\n")
    assert "line 2: node 1 has the role test, but train in line 1" in refused(root)
    folder(root, split__csv="1,train\nx,test\n")
    assert "line 2: expected an integer node id as in the graph, found 'x'" in refused(root)


HINT = "remove these rows, or list all nodes of the graph in a file such as nodes.csv"


@pytest.mark.parametrize(("stem", "word"), [("labels", "red"), ("split", "test")])
def test_nodes_that_are_not_in_the_graph(stem: str, word: str, tmp_path: Path) -> None:
    def said(text: str) -> str:
        root = people(tmp_path, **{f"{stem}__csv": text})
        return refused(root, UnknownNodeError).replace(str(root), "…")

    what = "label" if stem == "labels" else "role"
    rows = f"ann,{word}\neve,{word}\nfay,{word}\n"
    assert said(rows) == f"2 nodes in …/{stem}.csv are not in the graph, the first: 'eve', 'fay'; {HINT}"
    assert said(f"eve,{word}\nann,{word}\n") == (
        f"node 'eve' in …/{stem}.csv is not in the graph (ids look like 'ann', 'bob'); "
        f"if line 1 names the columns, call them node and {what}, else {HINT}"
    )
    assert "no row has a node of the graph, whose first ids are 'ann', 'bob'" in said(f"eve,{word}\nfay,{word}\n")
    assert said(f"eve,{word}\n").endswith(f"(ids look like 'ann', 'bob'); {HINT}")


@pytest.mark.parametrize("stem", ["labels", "split"])
def test_parquet_without_rows_and_without_words(stem: str, tmp_path: Path) -> None:
    root, what = people(tmp_path), "label" if stem == "labels" else "role"
    (root / f"{stem}.csv").unlink(missing_ok=True)
    path = root / f"{stem}.parquet"
    pq.write_table(pa.table({"node": pa.array([], pa.string()), what: pa.array([], pa.string())}), path)
    assert refused(root) == f"{path}: the file has no rows; write one for each node with a {what}"
    pq.write_table(pa.table({"node": ["ann"], what: [True]}), path)
    if what == "role":
        problem = "expected train, validation or test, found 'true'; write one of these"
        assert refused(root) == f"{path}, line 1: {problem}"
    pq.write_table(pa.table({"node": ["ann", "cy"], what: ["train", None]}), path)
    assert refused(root) == f"{path}: the {what} is missing in row 2"


def test_a_wrong_role_in_parquet(tmp_path: Path) -> None:
    root = people(tmp_path)
    pq.write_table(pa.table({"node": ["ann", "cy"], "split": ["train", "dev"]}), root / "split.parquet")
    assert "split.parquet, line 2: expected train, validation or test, found 'dev'" in refused(root)


def test_a_node_list_without_a_labeled_node(tmp_path: Path) -> None:
    message = refused(people(tmp_path, nodes__csv="ann\nbob\ncy\n"), UnknownNodeError)
    assert (
        "edges.csv is not in the graph (ids look like 'ann', 'bob'); the list of nodes must contain every node"
        in message
    )


def test_features_without_a_row_for_a_node(tmp_path: Path) -> None:
    message = refused(people(tmp_path, features__csv="node,x\nann,1\nbob,2\ncy,3\n"))
    assert "features.csv: 1 node of the graph has no row, the first: 'dan'" in message
