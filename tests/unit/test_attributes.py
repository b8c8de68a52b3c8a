"""Features from attributes: each kind against scikit-learn or by hand, stored and applied to new nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import cge
from cge.cli.main import run
from cge.data.attributes import AttributeEncoder
from cge.errors import FileFormatError, InputError
from tests.fixtures import quick_cge
from tests.stored_files import edit_json

TITLES = ["deep neural nets", "neural learning", "query joins", "joins of deep queries", "nets learning", "query"]
COLUMNS: dict[str, list[str]] = {
    "title": TITLES,
    "venue": ["ICML", "ICML", "VLDB", "VLDB", "ICML", "VLDB"],
    "year": ["1990", "1995", "", "2001", "nan", "2010"],
    "date": ["2001-01-01", "2001-01-03", "2001-01-02 12:00", "2001-01-01", "2001-01-05", "2001-01-01"],
    "code": ["q1", "q2", "q3", "q4", "q5", "q6"],
    "same": ["x"] * 6,
}


def arrays(columns: dict[str, list[str]]) -> dict[str, Any]:
    return {name: np.array(values, object) for name, values in columns.items()}


def test_each_kind_of_attribute() -> None:
    encoder = AttributeEncoder.fit(arrays(COLUMNS))
    assert [(each.name, each.kind) for each in encoder.attributes] == [
        ("title", "text"),
        ("venue", "category"),
        ("year", "number"),
        ("date", "date"),
    ]
    assert encoder.left_out == ("code", "same")
    features = pd.DataFrame(encoder.transform(arrays(COLUMNS)), columns=encoder.feature_names).astype(float)
    words = TfidfVectorizer(min_df=2, sublinear_tf=True).fit(TITLES)
    texts = [f"title: {word}" for word in words.get_feature_names_out()]
    assert features[texts].to_numpy() == pytest.approx(words.transform(TITLES).toarray(), abs=1e-6)
    venues = OneHotEncoder().fit_transform(np.array(COLUMNS["venue"])[:, None]).toarray()
    assert features[["venue=ICML", "venue=VLDB"]].to_numpy() == pytest.approx(venues)
    years = StandardScaler().fit_transform(np.array([[1990.0], [1995], [2001], [2010]]))[:, 0]
    assert features["year"].to_numpy() == pytest.approx(np.array([*years[:2], 0, years[2], 0, years[3]]) / 3, abs=1e-6)
    assert features["year missing"].tolist() == [0, 0, 1, 0, 1, 0]
    days = StandardScaler().fit_transform(np.array([[0.0], [2], [1.5], [0], [4], [0]]))[:, 0]
    assert features["date"].to_numpy() == pytest.approx(days / 3, abs=1e-6)


def test_values_that_are_new_or_far_away() -> None:
    encoder = AttributeEncoder.fit(arrays(COLUMNS))
    new = {"title": ["neural unknown"], "venue": ["KDD"], "year": ["9999"], "date": [""]}
    row = dict(zip(encoder.feature_names, encoder.transform(arrays(new))[0].tolist(), strict=True))
    assert {name for name, value in row.items() if value} == {"title: neural", "year"}
    assert row["year"] == 1
    with pytest.raises(InputError, match="the attribute 'year' is a number, found 'soon'; correct it, or leave"):
        encoder.transform(arrays(new | {"year": ["soon"]}))
    with pytest.raises(InputError, match="the attribute 'venue' is missing; the columns are 'title'; add the column"):
        encoder.transform(arrays({"title": ["x"]}))
    with pytest.raises(InputError, match="no column of attributes distinguishes nodes, found 'same'"):
        AttributeEncoder.fit(arrays({"same": ["x", "x"]}))


def test_an_encoder_is_plain_data() -> None:
    encoder = AttributeEncoder.fit(arrays(COLUMNS))
    metadata = json.loads(json.dumps(encoder.metadata()))
    assert AttributeEncoder.restored(metadata) == encoder
    for name, value in {"kind": "x", "std": 0.0, "values": [1], "idf": [1.0], "missing": 1, "other": 1}.items():
        changed = json.loads(json.dumps(metadata))
        changed["attributes"][0][name] = value
        with pytest.raises(InputError, match="the encoding of attributes cannot be read"):
            AttributeEncoder.restored(changed)


def test_many_features_are_sparse() -> None:
    values = [f"v{k // 2}" for k in range(200)]
    assert AttributeEncoder.fit(arrays({"a": values})).transform(arrays({"a": values})).nnz == 200


# ---------------------------------------------------------------------- files and models


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Write a graph of papers with titles, years and venues."""
    monkeypatch.chdir(tmp_path)
    random, size = np.random.default_rng(0), 40
    words = [["deep", "neural", "learning"], ["query", "join", "index"]]
    table = pd.DataFrame(
        {
            "id": [f"p{k}" for k in range(size)],
            "title": [" ".join(random.choice([*words[k % 2], "new"], 4)) for k in range(size)],
            "venue": [["ICML", "VLDB"][k % 2] if k % 5 else None for k in range(size)],
            "when": pd.to_datetime("2001-01-01") + pd.to_timedelta(np.arange(size), "D"),
        }
    )
    table.to_csv("nodes.csv", index=False)
    table.to_parquet("nodes.parquet")
    pairs = [(f"p{a}", f"p{b}") for a in range(size) for b in random.choice(size, 2) if a != b]
    Path("edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in pairs))
    Path("labels.csv").write_text("node,label\n" + "".join(f"p{k},{'ab'[k % 2]}\n" for k in range(20)))
    Path("new.csv").write_text("id,title,venue,when\nq,deep neural learning,ICML,2001-02-01\n")
    return table


@pytest.mark.parametrize("file", ["nodes.csv", "nodes.parquet"])
def test_attributes_of_files(file: str, papers: pd.DataFrame) -> None:
    graph = cge.read_graph("edges.csv", attributes=file)
    assert len(graph) == len(papers)
    assert [(each.name, each.kind) for each in graph.encoder.attributes] == [
        ("title", "text"),
        ("venue", "category"),
        ("when", "date"),
    ]
    for columns, names in {("venue",): {"venue"}, ("-title", "-when"): {"venue"}}.items():
        graph = cge.read_graph("edges.csv", attributes=file, attribute_columns=columns)
        assert {each.name for each in graph.encoder.attributes} == names
    with pytest.raises(FileFormatError, match="there is no column 'titel' of attributes; did you mean 'title'"):
        cge.read_graph("edges.csv", attributes=file, attribute_columns=["titel"])
    with pytest.raises(InputError, match="attributes and features both give features; pass one of them"):
        cge.read_graph("edges.csv", file, attributes=file)
    assert graph.with_features(np.eye(len(graph))).encoder is None


def test_an_attribute_that_equals_the_labels_is_noted(papers: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    papers[["id", "venue"]].dropna()[:12].apply(lambda column: column.str.lower()).to_csv("venues.csv", index=False)
    assert run(["check", "edges.csv", "--attributes", "nodes.csv", "--labels", "venues.csv"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the attribute 'venue' equals the label of 12 of the 12 labeled nodes; if it is the label, leave it" in text
    assert "--attribute-columns=-venue" in text
    words = ["check", "edges.csv", "--attributes", "nodes.csv", "--labels", "venues.csv", "--attribute-columns=-venue"]
    assert run(words) == 0
    assert "equals the label" not in capsys.readouterr().out


def test_a_model_keeps_the_encoder(papers: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "edges.csv", "--attributes", "nodes.csv"]) == 0
    assert "attribute 'venue'  category, 2 values, some missing" in capsys.readouterr().out
    graph = cge.read_graph("edges.csv", attributes="nodes.csv")
    y = {f"p{k}": "ab"[k % 2] for k in range(20)}
    model = quick_cge("degree", classifier="mlp").fit(graph, y)
    model.save("m")
    loaded = cge.load("m")
    assert loaded.graph_.encoder == graph.encoder
    assert run(["predict", "m", "--attributes", "new.csv", "--json"]) == 0
    (prediction,) = json.loads(capsys.readouterr().out)["predictions"]
    assert (prediction["node"], prediction["class"], prediction["evidence"]) == ("q", "a", "features")
    edit_json(Path("m/model.json"), lambda content: content["metadata"]["graph"]["attributes"]["attributes"].pop())
    with pytest.raises(FileFormatError, match="the encoding of attributes does not belong to the features"):
        cge.load("m")
