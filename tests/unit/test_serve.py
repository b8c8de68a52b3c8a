"""The server: answers of every operation, limits, tokens, hostile requests, updates while others read."""

from __future__ import annotations

import json
import threading
import time
from copy import copy
from typing import Any

import numpy as np
import pytest

import cge
from cge.serve.app import create_app
from cge.serve.service import Limits, Service

testclient = pytest.importorskip(
    "starlette.testclient", reason="starlette is part of the extra 'serve', httpx2 of 'dev'"
)


def people() -> cge.CGE:
    names = [f"n{i}" for i in range(40)]
    x = np.random.default_rng(0).random((40, 3)) + np.repeat(np.eye(2, 3), 20, axis=0)
    edges = [(names[i + s], names[(i + k) % 20 + s]) for s in (0, 20) for i in range(20) for k in (1, 2)]
    labels = {name: "left" if i < 20 else "right" for i, name in enumerate(names) if i % 4 == 0}
    model = cge.CGE("degree", hops=2, classifier="mlp", training={"max_epochs": 10})
    return model.fit(cge.Graph.from_edges(edges, x, names), labels)


@pytest.fixture(scope="module")
def trained() -> cge.CGE:
    return people()


def client_of(model: Any, token: str | None = None, refuse: str = "", **limits: Any) -> Any:
    service = Service(model, Limits(**limits), refuse)
    service.warm_up()
    return testclient.TestClient(create_app(service, token), base_url="http://localhost", raise_server_exceptions=True)


@pytest.fixture(scope="module")
def client(trained: cge.CGE) -> Any:
    with client_of(trained) as opened:
        yield opened


@pytest.fixture
def changing(trained: cge.CGE) -> Any:
    with client_of(copy(trained)) as opened:
        yield opened


def post(client: Any, name: str, **content: Any) -> Any:
    return client.post(f"/{name}", json=content)


def test_predictions_of_known_and_new_nodes(client: Any, trained: cge.CGE) -> None:
    answer = post(client, "predict", nodes=["n1", "n30"]).json()
    assert [row["class"] for row in answer["predictions"]] == trained.predict(["n1", "n30"]).tolist()
    np.testing.assert_allclose(
        [list(row["probabilities"].values()) for row in answer["predictions"]],
        trained.predict_proba(["n1", "n30"]),
        1e-6,
    )
    graph = {"edges": [["new", "n1"], ["new", "n2"]], "features": {"new": [1, 0.2, 0.1]}}
    row = post(client, "predict", graph=graph).json()["predictions"][0]
    assert (row["node"], row["evidence"]) == ("new", "features+edges")
    assert len(trained.graph_) == 40


def test_every_operation_answers(client: Any, trained: cge.CGE) -> None:
    explanation = post(client, "explain", node="n1", top=3).json()
    assert len(explanation["paths"]) == 3
    assert explanation["paths"][0]["path"][0] == "n1"
    similar = post(client, "similar", node="n1", top=2).json()["similar"]
    assert [row["node"] for row in similar] == [hit.node for hit in trained.similar("n1", 2)]
    links = post(client, "links", node="n1", top=5).json()["links"]
    assert links[0]["source"] == "n1"
    vectors = post(client, "embed", nodes=["n3"]).json()["vectors"]
    np.testing.assert_allclose(vectors, trained.transform(["n3"]), rtol=1e-6)
    assert client.get("/health").json()["nodes"] == 40
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) >= {"/predict", "/explain", "/similar", "/links", "/embed", "/update", "/health"}
    for path in ("/", "/explorer.js", "/explorer.css"):
        page = client.get(path)
        assert page.status_code == 200
        assert "default-src 'self'" in page.headers["content-security-policy"]


def test_an_update_changes_the_answers_of_the_server_only(changing: Any, trained: cge.CGE) -> None:
    client = changing
    change = {"edges": [["new", "n1"]], "features": {"new": [0, 0, 0]}}
    summary = post(client, "update", graph=change, remove_edges=[["n3", "n4"]], labels={"n2": "left"}).json()
    assert (summary["nodes"], summary["new_nodes"]) == (41, 1)
    assert client.get("/health").json()["updates"] == 1
    assert post(client, "predict", nodes=["new"]).json()["predictions"][0]["evidence"] == "training graph"
    assert len(trained.graph_) == 40
    with client_of(trained, refuse="this server was started with --read-only") as other:
        answer = post(other, "update", graph=change)
        assert (answer.status_code, "read-only" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("operation", "content", "status", "expected"),
    [
        ("predict", {"nodes": ["nobody"]}, 404, "nobody"),
        ("predict", {"nodes": []}, 400, "a list of 1 to 1,000 ids"),
        ("predict", {"nodes": ["n1"] * 1001}, 400, "1,001 values"),
        ("predict", {"nodes": [1]}, 400, "which is text"),
        ("predict", {"nodes": [["n1"]]}, 400, "which is text"),
        ("predict", {"nodes": "n1"}, 400, "a list"),
        ("predict", {}, 400, "a list"),
        ("predict", {"file": "/etc/passwd"}, 400, "there is no field 'file'"),
        ("predict", {"graph": {"edges": [["a"]]}}, 400, "pairs"),
        ("predict", {"graph": {"edges": [["new", "n1"]], "features": {"new": [1]}}}, 400, "3 features"),
        ("predict", {"graph": {"edges": [["new", "n1"]], "features": {"new": ["x"]}}}, 400, "numbers"),
        ("explain", {"node": "nobody"}, 404, "nobody"),
        ("explain", {"node": "n1", "class": "up"}, 400, "there is no class 'up'"),
        ("explain", {"node": "n1", "top": 0}, 400, "from 1 to 1,000"),
        ("similar", {"node": None}, 400, "which is text"),
        ("similar", {"node": "../../etc/passwd"}, 404, "etc/passwd"),
        ("links", {"top": 10**9}, 400, "from 1 to 1,000"),
        ("embed", {"nodes": {"n1": 2}}, 400, "a list"),
        ("update", {"remove_edges": [["n1", "nobody"]]}, 404, "nobody"),
        ("update", {"labels": {"n1": "up"}}, 400, "up"),
        ("update", {"labels": ["n1"]}, 400, "an object"),
    ],
)
def test_wrong_requests_get_one_sentence(client: Any, operation: str, content: Any, status: int, expected: str) -> None:
    answer = post(client, operation, **content)
    assert (answer.status_code, expected in answer.json()["error"]) == (status, True), answer.text
    assert "\n" not in answer.json()["error"]
    assert post(client, "predict", nodes=["n1"]).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[1]", 400),
        (b'{"nodes": [NaN]}', 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"nodes": [' + b"9" * 5000 + b"]}", 400),
        (b'{"nodes": ["' + b"x" * 2_000_000 + b'"]}', 413),
        (b"", 400),
    ],
)
def test_hostile_bodies(client: Any, body: bytes, status: int) -> None:
    answer = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert isinstance(answer.json()["error"], str)
    assert client.post("/predict", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415


def test_no_path_reaches_the_file_system(client: Any) -> None:
    for path in (
        "/../pyproject.toml",
        "/%2e%2e/app.py",
        "/app.py",
        "//etc/passwd",
        "/explorer.js/../app.py",
        "/static",
    ):
        answer = client.get(path)
        assert answer.status_code in (200, 404)
        assert "import" not in answer.text or path.startswith("/explorer.js")
    assert client.get("/predict").status_code == 404
    assert client.get("/health", headers={"Host": "evil.example"}).status_code == 400


def test_a_token(trained: cge.CGE) -> None:
    with client_of(trained, token="secret") as client:
        assert post(client, "predict", nodes=["n1"]).status_code == 401
        for wrong in ("Bearer secreT", "secret", "Bearer", "Bearer é"):
            headers = {"Authorization": wrong.encode()}
            assert client.post("/predict", json={"nodes": ["n1"]}, headers=headers).status_code == 401
        good = {"Authorization": "Bearer secret"}
        assert client.post("/predict", json={"nodes": ["n1"]}, headers=good).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.get("/health").status_code == 200
        assert client.get("/openapi.json").json()["security"] == [{"token": []}]


def test_slow_requests_end_and_others_are_turned_away(trained: cge.CGE) -> None:
    service = Service(trained, Limits(timeout=0.2, max_waiting=1))
    release = threading.Event()
    service.operations["similar"] = lambda _: release.wait(5) or {}  # type: ignore[assignment,return-value]
    with testclient.TestClient(create_app(service), base_url="http://localhost") as client:
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(post(client, "similar", node="n1").status_code))
        thread.start()
        time.sleep(0.05)
        turned_away = post(client, "predict", nodes=["n1"])
        assert (turned_away.status_code, turned_away.headers["retry-after"]) == (503, "1")
        thread.join()
        release.set()
        assert statuses == [504]


def test_counters(changing: Any) -> None:
    client = changing
    post(client, "predict", nodes=["n1"])
    post(client, "predict", nodes=["nobody"])
    lines = client.get("/metrics").text.splitlines()
    assert 'cge_requests_total{operation="predict",status="200"} 1' in lines
    assert 'cge_requests_total{operation="predict",status="404"} 1' in lines
    assert 'cge_request_seconds_count{operation="predict"} 2' in lines
    assert "cge_model_nodes 40" in lines


def test_an_unexpected_error_tells_nothing_of_the_inside(trained: cge.CGE) -> None:
    service = Service(trained, Limits())

    def broken(_: Any) -> Any:
        raise RuntimeError("/secret/path")

    service.operations["embed"] = broken
    with testclient.TestClient(create_app(service), base_url="http://localhost") as client:
        answer = post(client, "embed", nodes=["n1"])
    assert (answer.status_code, "secret" in answer.text) == (500, False)


def test_requests_while_the_model_is_updated(changing: Any) -> None:
    client = changing
    failures: list[Any] = []

    def read() -> None:
        for _ in range(20):
            answer = post(client, "predict", nodes=["n1", "n2"])
            if answer.status_code != 200:
                failures.append(answer.text)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(5):
        assert post(client, "update", graph={"edges": [[f"new{number}", "n1"]]}).status_code == 200
    for reader in readers:
        reader.join()
    assert not failures
    assert json.loads(client.get("/health").text)["nodes"] == 45
