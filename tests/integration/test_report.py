"""The report in a real browser: it opens offline, draws its charts, and treats hostile names as text."""

from __future__ import annotations

import json
import shlex
import struct
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

import cge
from cge.cli.main import run
from cge.estimators.configs import make_estimator
from cge.explain.faithfulness import FRACTIONS
from cge.report import compare_methods, scored_nodes, write_page
from cge.report.contents import report_contents
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features
from tests.integration.commands import json_of

HALF = "half a pair \ud83d"  # no encoding can write it

HOSTILE = [
    "<script>document.title='taken'</script>",
    "\"quoted\" 'twice' `thrice`",
    "‮right to left",
    "👩‍🔬 emoji",
    "x" * 10_000,
    "</script><img src=x onerror=alert(1)>",
    "&lt;b&gt;already",
    "$name ${x} $$",
    "%{x} %{text} a<br>b",
    HALF,
]


CLASSES = ["<i>one</i>", "</script>two"]
ORDERS = ["by contribution", "by weight", "in random order"]


def hostile() -> tuple[cge.CGE, np.ndarray]:
    """Return a model of a graph whose ids contain markup and scripts, and the labels of all nodes."""
    graph = with_sparse_features(two_groups())
    ids = [HOSTILE[node] if node < len(HOSTILE) else f"node {node}" for node in range(len(graph))]
    source = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    pairs = [(ids[u], ids[v]) for u, v in zip(source, graph.indices, strict=True) if u < v]
    graph = cge.Graph.from_edges(pairs, node_ids=ids, features=graph.features)
    classes = np.array(CLASSES)
    y = {ids[node]: str(classes[TRUE_LABELS[node]]) for node in np.flatnonzero(partial_labels() >= 0)}
    validation = {
        ids[node]: str(classes[TRUE_LABELS[node]]) for node in np.flatnonzero(partial_labels(TRUE_LABELS, 4) >= 0)
    }
    model = quick_cge("cosine", classifier="consistency", label_propagation=False).fit(graph, y, validation)
    return model, np.searchsorted(model.classes_, classes)[TRUE_LABELS]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, labels = hostile()
    file = tmp_path_factory.mktemp("report") / "report.html"
    size = write_page(model, file, title="<b>hostile</b>", test_labels=labels)
    assert file.stat().st_size == size
    return file


def open_page(browser: Any, page: Path, width: int = 1200, scheme: str = "light") -> tuple[Any, list[str]]:
    """Open the page and return it with all errors, warnings, requests and dialogs."""
    problems: list[str] = []
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    tab.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    local = ("file:", "data:", "blob:")
    tab.on("request", lambda request: None if request.url.startswith(local) else problems.append(request.url))
    tab.on("dialog", lambda dialog: (problems.append("a dialog"), dialog.dismiss()))
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    return tab, problems


@pytest.fixture(scope="module")
def opened(browser: Any, page: Path) -> Iterator[tuple[Any, list[str]]]:
    """The page in one tab, for tests that leave it as it is: drawing all charts takes seconds."""
    tab, problems = open_page(browser, page)
    yield tab, problems
    tab.context.close()


# Elements that overflow the window, except tables and commands, which scroll by themselves.
OVERFLOWING = """() => [...document.querySelectorAll("body *")].filter((element) => {
  const box = element.getBoundingClientRect();
  const beyond = box.right > innerWidth + 0.5 || box.left < -0.5;
  return box.width && beyond && !element.closest("pre, .scroll, .skip, svg, datalist");
}).map((element) => element.tagName + "#" + element.id + "." + element.className)"""
TEXTS = "all => all.map((element) => element.textContent)"


def screenshot_width(tab: Any, file: Path) -> int:
    """Take a screenshot of the whole page and return its width in pixels."""
    tab.screenshot(path=str(file), full_page=True)
    width, _ = struct.unpack(">II", file.read_bytes()[16:24])  # the header of a PNG
    return int(width)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_opens_without_network_errors_or_overflow(
    browser: Any, page: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    tab, problems = open_page(browser, page, width, scheme)
    assert problems == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    assert screenshot_width(tab, tmp_path / f"{width}-{scheme}.png") == width
    assert tab.evaluate(OVERFLOWING) == []
    charts = {chart.get_attribute("id") for chart in tab.query_selector_all(".chart.js-plotly-plot")}
    assert charts >= {"accuracy", "reliability", "curve", "scatter", "confusion", "edge-coefficients", "hop-weights"}
    heads = tab.eval_on_selector_all("#toc a", TEXTS)
    assert heads == tab.eval_on_selector_all("main h2", TEXTS)
    tab.context.close()


def test_hostile_names_stay_text(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    assert tab.title() == "cge: <b>hostile</b>"
    for name in HOSTILE:
        # As a JavaScript literal: half of a surrogate pair is lost on the way from Python.
        tab.evaluate(f"document.getElementById('node').value = {json.dumps(name)}")
        tab.press("#node", "Enter")
        head = "document.querySelector('#node-card h3')"
        assert tab.evaluate(f"({head}.title || {head}.textContent) === {json.dumps(name)}")
        assert tab.evaluate(f"{head}.textContent.length <= 120")
    assert tab.query_selector_all("#node-card script, #node-card img, #node-card b, #scatter img") == []
    assert tab.title() == "cge: <b>hostile</b>"
    assert problems == []


def test_hostile_names_stay_text_in_charts(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    assert sorted(tab.eval_on_selector_all("#scatter .legendtext", TEXTS)) == sorted(CLASSES)
    for axis in ("xtick", "ytick"):
        assert sorted(tab.eval_on_selector_all(f"#confusion .{axis} text", TEXTS)) == sorted(CLASSES)
    hover = """(name) => {
      const scatter = document.getElementById("scatter");
      const curve = scatter.data.findIndex((trace) => trace.text.some((text) => text.startsWith("<b>" + name)));
      const point = scatter.data[curve].text.findIndex((text) => text.startsWith("<b>" + name));
      Plotly.Fx.hover(scatter, [{ curveNumber: curve, pointNumber: point }]);
    }"""
    for name in HOSTILE[:-1]:
        short = name if len(name) <= 60 else name[:59] + "…"
        tab.evaluate(hover, short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
        tab.wait_for_timeout(150)  # the next hover is processed after a pause
        text = tab.text_content("#scatter .hoverlayer")
        assert text.startswith(short), name
        assert any(f"predicted: {label} (" in text for label in CLASSES)
    tab.evaluate("document.getElementById('confusion').scrollIntoView({ block: 'center', behavior: 'instant' })")
    box = tab.query_selector("#confusion .nsewdrag").bounding_box()
    for distance in (4, 0):  # the corner is a cell of one class predicted as the other
        tab.mouse.move(box["x"] + 0.75 * box["width"] + distance, box["y"] + 0.25 * box["height"])
        tab.wait_for_timeout(150)
    text = tab.text_content("#confusion .hoverlayer")
    assert all(label in text for label in CLASSES)
    assert tab.query_selector_all(".chart script, .chart img, .chart i, .chart b") == []
    assert problems == []


def test_the_explorer_shows_paths_and_neighbors_and_reports_missing_nodes(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    tab.fill("#node", "node 20")
    tab.press("#node", "Enter")
    assert tab.text_content("#node-card h3") == "node 20"
    assert tab.query_selector_all("#node-card .path svg circle")
    assert set(tab.eval_on_selector_all("#node-card .classes li", TEXTS)) <= {
        "<i>one</i>",
        "</script>two",
    }
    fills = tab.eval_on_selector_all(
        "#node-card .path svg circle", "all => all.map((element) => element.getAttribute('fill'))"
    )
    assert len(set(fills)) == len(tab.query_selector_all("#node-card .classes li")) > 0
    explanation = hostile()[0].explain("node 20", top=5)
    numbers = tab.eval_on_selector_all("#node-card .numbers", TEXTS)
    for best, shown in (
        (explanation.by_endpoint[0], numbers[0]),
        (explanation[0], numbers[len(explanation.by_endpoint)]),
    ):
        contribution = f"{'+' if best.contribution > 0 else '−'}{abs(best.contribution):.3g}".rstrip("0")
        assert f"contribution {contribution}" in shown
    assert explanation.describe_coverage() in (tab.text_content("#node-card") or "")
    near = tab.query_selector("#node-card .near button")
    assert near is not None
    near.focus()
    tab.keyboard.press("Enter")  # works without a mouse
    assert tab.text_content("#node-card h3") != "node 20"
    tab.fill("#node", "nobody")
    tab.press("#node", "Enter")
    assert "This node is not on this page." in (tab.text_content("#not-found") or "")
    assert tab.query_selector("#node-card h3") is None  # the last node is no longer shown
    near = tab.eval_on_selector_all("#not-found button", TEXTS)
    assert near == [f"node {number}" for number in range(len(HOSTILE), len(HOSTILE) + 5)]
    tab.click("#not-found button")
    assert (tab.text_content("#node-card h3"), tab.text_content("#not-found")) == (f"node {len(HOSTILE)}", "")
    tab.fill("#node", "  node 21 ")
    tab.press("#node", "Enter")
    assert tab.text_content("#node-card h3") == "node 21"
    assert tab.text_content("#suggestions") == ""
    assert problems == []


def test_hovering_and_clicking_the_map_shows_a_node(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    assert len(tab.query_selector_all("#scatter .scatterlayer .point")) == 40
    tab.evaluate("document.getElementById('scatter').scrollIntoView({ block: 'center', behavior: 'instant' })")
    # The positions of points in the window, with their texts.
    points = tab.evaluate(
        """() => {
      const scatter = document.getElementById("scatter"), box = scatter.getBoundingClientRect();
      const { xaxis, yaxis } = scatter._fullLayout;
      return scatter.data.flatMap((trace) => trace.x.map((x, place) => ({
        text: trace.text[place],
        x: box.left + xaxis._offset + xaxis.d2p(x),
        y: box.top + yaxis._offset + yaxis.d2p(trace.y[place]),
      })));
    }"""
    )
    positions = np.array([[point["x"], point["y"]] for point in points])
    distances = np.linalg.norm(positions[:, None] - positions, axis=2) + 1e9 * np.eye(40)
    plain = [point["text"].startswith("<b>node ") for point in points]
    ids = [point["text"][3:].partition("</b>")[0] for point in points]
    before = tab.text_content("#node-card h3")
    isolated = np.argsort(-distances.min(1)).tolist()
    place = next(point for point in isolated if plain[point] and ids[point] != before)
    for distance in (3, 2, 1, 0):  # hover events need a moving mouse
        tab.mouse.move(positions[place, 0] + distance, positions[place, 1])
        tab.wait_for_timeout(100)
    tab.wait_for_selector("#scatter .hoverlayer .hovertext", timeout=5000)
    hovered = tab.text_content("#scatter .hoverlayer")
    assert hovered.startswith(f"{ids[place]}label: ")
    assert "predicted: " in hovered
    tab.mouse.down()
    tab.mouse.up()
    tab.wait_for_selector(f'#node-card h3:text-is("{ids[place]}")', timeout=5000)
    assert tab.input_value("#node") == ids[place]
    assert problems == []


def test_faithfulness_curves_are_drawn(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    traces = "id => document.getElementById(id).data.map(({ name, x, y }) => [name, y[0], y.at(-1), x.length])"
    means = "id => document.getElementById(id).data.map(({ y }) => y.reduce((sum, value) => sum + value) / y.length)"
    changes = ("deletion", "insertion")
    (by_contribution, _, at_random), (inserted, _, inserted_at_random) = (tab.evaluate(means, each) for each in changes)
    assert by_contribution < at_random
    assert inserted > inserted_at_random
    deletion, insertion = (tab.evaluate(traces, change) for change in changes)
    assert [name for name, *_ in deletion] == [name for name, *_ in insertion] == ORDERS
    assert {points for *_, points in deletion + insertion} == {len(FRACTIONS)}
    for (_, start, end, _), (_, first, last, _) in zip(deletion, insertion, strict=True):
        assert (start, end) == pytest.approx((last, first), abs=1e-3)  # all paths, and none
    texts = tab.eval_on_selector_all("#insertion .legendtext, #insertion .xtitle", TEXTS)
    assert sorted(texts) == sorted([*ORDERS, "fraction of these paths inserted"])
    assert problems == []


def test_no_button_of_a_chart_uploads_anything(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    names = tab.eval_on_selector_all(".modebar-btn", "all => all.map((button) => button.dataset.title)")
    assert names == ["Zoom", "Pan", "Reset axes", "Download plot as a PNG"]
    assert "form-action 'none'" in tab.get_attribute("meta[http-equiv]", "content")
    tab.fill("#node", "node 20")
    tab.press("#node", "Enter")  # the form is processed on the page
    assert tab.text_content("#node-card h3") == "node 20"
    assert problems == []


def test_ticks_of_logarithmic_axes_have_all_digits(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    wide = {"type": "scatter", "x": [0.13, 5], "y": [1, 2]}
    tab.evaluate("(trace) => Plotly.react('histogram', [trace], document.getElementById('histogram').layout)", wide)
    ticks = tab.eval_on_selector_all("#histogram .xtick text", TEXTS)
    numbers = [float(tick) for tick in ticks]
    assert numbers == sorted(numbers)
    assert {0.2, 0.5, 1, 2, 5} <= set(numbers)
    assert len(numbers) <= 7  # so that they do not overlap
    assert problems == []


def test_charts_have_descriptions(opened: tuple[Any, list[str]]) -> None:
    tab, problems = opened
    roles = tab.eval_on_selector_all(".chart", "all => all.map((element) => element.getAttribute('role'))")
    assert set(roles) == {"img"}
    labeled = tab.query_selector_all(".chart[aria-label]")
    descriptions = {chart.get_attribute("id"): chart.get_attribute("aria-label") for chart in labeled}
    assert len(descriptions) == len(roles)
    rows = report_contents(hostile()[0], test_labels=hostile()[1])["accuracy"]
    assert descriptions["accuracy"] == f"Summary. cge {rows[0]['accuracy']:.3g}."
    assert descriptions["scatter"].startswith("Vectors (2-D projection). ")
    assert "<i>one</i>: 20 nodes" in descriptions["scatter"]
    assert "</script>two: 20 nodes" in descriptions["scatter"]
    assert descriptions["hop-weights"].startswith("Hop weights. 0 ")
    assert descriptions["confusion"].startswith("Confusion matrix. the largest value: true class ")
    assert "use the path explorer below" in (tab.text_content("#colors-caption") or "")
    assert problems == []


def test_the_theme_can_be_switched(browser: Any, page: Path) -> None:
    tab, problems = open_page(browser, page)
    tab.click("#theme")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    for chart, style, color in (
        ("#accuracy .errorbar path", "stroke", "rgb(230, 234, 240)"),
        ("#scatter [data-title='Reset axes'] path", "fill", "rgb(154, 166, 181)"),
    ):
        computed = "([selector, style]) => getComputedStyle(document.querySelector(selector))[style]"
        assert tab.evaluate(computed, [chart, style]) == color
    assert problems == []
    tab.context.close()


def test_the_page_is_printed_in_light_colors(browser: Any, page: Path) -> None:
    tab, problems = open_page(browser, page, scheme="dark")
    colors = """() => [
      getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
      document.querySelector("#accuracy .xtick text").style.fill,
      getComputedStyle(document.querySelector("#node-card .path svg text")).fill,
    ]"""
    ink, screen = "rgb(28, 36, 48)", tab.evaluate(colors)
    assert ink not in screen
    tab.emulate_media(media="print", color_scheme="dark")
    tab.wait_for_selector("html[data-theme=light]", timeout=5000)
    assert tab.evaluate(colors) == ["rgb(255, 255, 255)", ink, ink, ink]
    tab.emulate_media(media="screen", color_scheme="dark")
    tab.wait_for_selector("html[data-theme=dark]", timeout=5000)
    assert tab.evaluate(colors) == screen
    # The events that browsers send.
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate(colors)[2] == ink
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate(colors) == screen
    assert problems == []
    tab.context.close()


def test_axes_of_weights_have_titles(opened: tuple[Any, list[str]]) -> None:
    tab, _ = opened
    assert tab.text_content("#histogram .xtitle") == "relative weight"
    assert "Because these paths are selected by contribution" in tab.text_content("#strongest-caption")


# ---------------------------------------------------------------------- without a browser


def test_the_page_is_one_small_file_without_links(page: Path) -> None:
    text = page.read_text()
    assert page.stat().st_size < 3_000_000
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "hostile" not in text  # the user's texts are in the compressed data


def test_numbers_of_the_page_are_those_of_the_model() -> None:
    model, labels = hostile()
    contents = report_contents(model, title="x", test_labels=labels)
    train = {model.graph_.index_of(node) for node in np.array(model.node_ids_)[partial_labels() >= 0]}
    predicted = np.searchsorted(model.classes_, model.predict())
    validation = set(model.fitted_.validation.nodes.tolist())
    test = [node for node in range(40) if node not in train | validation]
    expected = np.zeros((2, 2), int)
    for node in test:
        expected[labels[node], predicted[node]] += 1
    assert contents["confusion"] == expected.tolist()
    accuracy = np.trace(expected) / len(test)
    assert contents["accuracy"][0]["accuracy"] == pytest.approx(accuracy)
    assert contents["summary"][1].startswith(f"Accuracy on {len(test)} test labels: {100 * accuracy:.1f} % (95 %")
    assert sum(contents["nodes"]["is_training"]) == len(train)
    node = 20
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    order = [other for other in np.argsort(-(unit @ unit[node]), kind="stable").tolist() if other != node]
    assert contents["neighbors"][node] == order[:6]
    expected_paths = model.explain(model.node_ids_[node], top=5)
    for (path, *numbers), expected_path in zip(contents["paths"][node], expected_paths, strict=True):
        assert [model.node_ids_[key] for key in path] == list(expected_path.path)
        assert numbers[:2] == pytest.approx([expected_path.relative_weight, expected_path.contribution], rel=1e-3)
        assert numbers[2] == expected_path.ends_at
    for (end, *parts), row in zip(contents["endpoints"][node], expected_paths.by_endpoint, strict=True):
        assert model.node_ids_[end] == row.name
        assert parts == pytest.approx([row.from_inputs, row.from_label], rel=1e-3)
    assert contents["notes"][node] == expected_paths.describe_coverage()


def test_a_large_graph_is_sampled_and_paths_may_leave_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    model, labels = hostile()
    monkeypatch.setattr("cge.report.shown_nodes._MAX_NODES", 15)
    contents = report_contents(model, test_labels=labels)
    nodes, ids = contents["nodes"], model.node_ids_.tolist()
    assert (
        len(nodes["keys"])
        == len(nodes["x"])
        == len(contents["paths"])
        == 15
        < len(nodes["id"])
        == len(nodes["predicted"])
    )
    assert "15 of 40 nodes are shown" in contents["captions"]["map-caption"]
    on_the_map = [ids.index(nodes["id"][key]) for key in nodes["keys"]]
    assert on_the_map == sorted(on_the_map)
    assert sum(nodes["is_training"][:15]) >= 7  # up to half are training nodes
    for key, paths in enumerate(contents["paths"]):
        assert len(paths) == 5
        for path, weight, *_ in paths:
            assert path[0] == key
            assert weight == pytest.approx(model.path_weights([[nodes["id"][node] for node in path]])[0], rel=1e-3)
    assert max(max(row) for row in contents["neighbors"]) < 15


class Umap(ModuleType):
    """A stub of umap-learn: the first two numbers of each vector; records its arguments."""

    def __init__(self) -> None:
        super().__init__("umap")
        self.__spec__ = ModuleSpec("umap", None)
        self.calls: list[dict[str, Any]] = []

    def UMAP(self, **settings: Any) -> Any:  # noqa: N802 - the name in umap-learn
        self.calls.append(settings)
        return SimpleNamespace(fit_transform=lambda vectors: vectors[:, :2])


def test_the_map_can_be_projected_by_umap(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = quick_cge("degree", classifier="mlp", hops=1, max_epochs=3, validation_fraction=0.0, random_state=5)
    model.fit(with_sparse_features(two_groups()), partial_labels()).save(tmp_path / "model")
    plain = report_contents(model)
    assert "(the first two principal components)" in plain["captions"]["map-caption"]
    assert "UMAP" not in plain["captions"]["map-caption"]
    monkeypatch.setitem(sys.modules, "umap", None)  # not installed
    command = ["report", str(tmp_path / "model"), "--out", str(tmp_path / "page.html"), "--projection"]
    assert run([*command, "umap"]) == 2
    assert capsys.readouterr().err == (
        "cge: --projection umap needs the package umap-learn; run pip install 'cge[umap]', or use --projection pca\n"
    )
    assert run([*command, "tsne"]) == 2
    assert capsys.readouterr().err == "cge: --projection must be 'pca' or 'umap', found 'tsne'\n"
    assert not (tmp_path / "page.html").exists()
    stub = Umap()
    monkeypatch.setitem(sys.modules, "umap", stub)
    contents = report_contents(model, projection="umap")
    assert "(UMAP)" in contents["captions"]["map-caption"]
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    assert contents["nodes"]["x"] == pytest.approx(unit[:, 0].tolist(), abs=1e-4)
    assert contents["nodes"]["y"] == pytest.approx(unit[:, 1].tolist(), abs=1e-4)
    assert contents["nodes"]["x"] != plain["nodes"]["x"]
    assert run([*command, "umap", "--quiet"]) == 0
    assert stub.calls == [{"n_components": 2, "n_neighbors": 15, "random_state": 5, "n_jobs": 1}] * 2


def test_the_page_contains_the_command_that_trained_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, small = with_sparse_features(two_groups()), {"max_epochs": 2, "classifier": "mlp", "hops": 1, "dim": 4}
    alone = make_estimator(cge.CGE, {**small, "weighting": "degree"}).fit(graph, partial_labels())
    assert report_contents(alone)["command"] == (
        "cge.CGE(classifier='mlp', dim=4, hops=1, random_state=0, training={'max_epochs': 2}, weighting='degree')"
        ".fit(graph, y)"
    )
    validated = make_estimator(cge.CGE, {**small, "weighting": "degree", "refit": False}).fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    assert "refit=False" in report_contents(validated)["command"]
    assert report_contents(validated)["command"].endswith(").fit(graph, y, validation)")
    validated.save(tmp_path / "python")
    again = cge.load(tmp_path / "python")
    assert report_contents(again)["command"] == report_contents(validated)["command"]
    monkeypatch.chdir(tmp_path)
    Path("my edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in pairwise(range(12))))
    Path("labels.csv").write_text("node,label\n" + "".join(f"{node},{'ab'[node > 5]}\n" for node in range(0, 12, 2)))
    arguments = [
        "fit",
        "my edges.csv",
        "--labels",
        "labels.csv",
        "--max-epochs",
        "2",
        "--seed",
        "3",
        "--out",
        "model",
    ]
    assert run(["--debug", *arguments, "--quiet", "--resume"]) == 0
    command = report_contents(cge.load("model"))["command"]
    assert command == "cge fit 'my edges.csv' --labels labels.csv --max-epochs 2 --seed 3 --out model --quiet"
    assert run(["fit", *shlex.split(command)[2:]]) == 0


def test_the_largest_classes_have_colors_and_every_label_counts() -> None:
    lists = {node: ["a", "m"] if node % 2 else ["m", "z"] for node in range(0, 40, 3)}
    lists |= {node: [f"class {node}"] for node in range(1, 40, 3)}
    model = quick_cge(
        "degree", classifier="mlp", label_propagation=False, hops=1, max_epochs=5, validation_fraction=0.0
    )
    model.fit(with_sparse_features(two_groups()), lists)
    contents = report_contents(model)
    nodes, names = contents["nodes"], contents["classes"]
    assert [names[nodes["color_class"][node]] for node in (0, 3, 1)] == ["m", "m", "class 1"]
    assert nodes["color_class"][2] == nodes["predicted"][2]  # without a label
    assert names[contents["groups"][0]["classes"][0]] == "m"
    own = [names[group["classes"][0]] for group in contents["groups"][:10]]
    assert {"a", "m", "z"} <= set(own)
    assert len(contents["groups"][-1]["classes"]) == len(names) - 10
    probabilities = model.predict_proba()
    for node, pairs in enumerate(nodes["predicted_all"]):
        assert {column for column, _ in pairs} == set(np.flatnonzero(probabilities[node] > 0.5).tolist())
        assert [value for _, value in pairs] == sorted((value for _, value in pairs), reverse=True)
    assert "has the color of its largest class" in contents["captions"]["colors-caption"]
    assert "The 10 largest classes have their own color" in contents["captions"]["colors-caption"]


def test_a_page_needs_a_trained_model() -> None:
    with pytest.raises(cge.CgeError, match="call fit first"):
        report_contents(cge.CGE())


MULTILABEL = np.eye(2, dtype=int)[TRUE_LABELS] | (np.arange(40) % 5 == 0)[:, None]


def task_labels(multilabel: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return training and validation labels."""
    if not multilabel:
        return partial_labels(), np.where(partial_labels() >= 0, -1, partial_labels(TRUE_LABELS, 4))
    train, validation = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    return MULTILABEL * train[:, None], MULTILABEL * validation[:, None]


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("passed", [False, True])
def test_methods_are_compared_on_validation_labels(multilabel: bool, passed: bool) -> None:
    graph, (y, validation) = with_sparse_features(two_groups()), task_labels(multilabel)
    model = quick_cge("degree", classifier="mlp", label_propagation=False, hops=2, max_epochs=5)
    model.fit(graph, y, validation if passed else None)
    scored = scored_nodes(model)
    assert scored is not None
    assert scored.kind == "validation"
    assert len(scored.nodes) == model.labels_seen_["validation"]
    labeled = y.any(axis=1) if multilabel else y >= 0
    assert labeled[scored.nodes].all() == (not passed)
    if passed:  # there was no second training, so these are the probabilities of the model
        np.testing.assert_allclose(scored.probabilities, model.predict_proba()[scored.nodes], atol=1e-6)
    rows = compare_methods(model, scored)
    if multilabel:
        expected = f1_score(scored.labels, scored.probabilities > 0.5, average="micro")
    else:
        expected = max((model.selection_history_ or model.history_).column("validation_accuracy"))
    assert rows[0]["accuracy"] == pytest.approx(expected)
    assert [row["method"] for row in rows[:2]] == ["cge", "cge (uniform weights)"]
    assert {row["method"] for row in rows[2:]} == {"SGC", "logistic regression (features)", "label propagation"}
    assert all(row["interval"][0] <= row["accuracy"] <= row["interval"][1] for row in rows)
    assert rows[1]["gain"].mean == pytest.approx(rows[0]["accuracy"] - rows[1]["accuracy"]) or multilabel
    contents = report_contents(model, method_scores=rows)
    metric = "Micro-F1" if multilabel else "Accuracy"
    assert contents["summary"][1].startswith(f"{metric} on {len(scored.nodes)} validation labels: ")
    assert " The model was selected on these labels, so this is slightly optimistic." in contents["summary"][1]
    assert "label propagation" in contents["summary"][2]
    assert contents["weighting"][-2].startswith("In the comparison of methods, cge is ")
    assert contents["weighting"][-1] == UNIFORM
    scored_on = f"trained on the model's training labels, scored on the same {len(scored.nodes)} validation labels: "
    assert f"Other methods, {scored_on}" in contents["summary"][2]
    alone = f"Logistic regression on the node embeddings (vectors) alone, {scored_on}"
    assert (alone in contents["summary"][1]) == passed  # after a refit, the vectors have seen the labels
    shown = (
        "Share of nodes that have a class, by its predicted probability" if multilabel else "Accuracy of predictions"
    )
    assert contents["captions"]["reliability-caption"].startswith(shown)
    assert f"%, on {len(scored.nodes)} validation labels." in contents["captions"]["reliability-caption"]
    assert (contents["reliability_axes"] == ["confidence", "accuracy"]) == (not multilabel)
    assert (contents["confusion"] is None) == multilabel
    assert len(contents["by_class"]) == len(contents["classes"])
    assert sum(contents["reliability"]["count"]) == len(scored.nodes) * (2 if multilabel else 1)


def test_without_features_or_with_uniform_weights_fewer_methods_are_compared() -> None:
    model = quick_cge("uniform", classifier="mlp", hops=2, max_epochs=5, label_propagation=False).fit(
        two_groups(features=False), partial_labels()
    )
    scored = scored_nodes(model, TRUE_LABELS)
    assert scored is not None
    assert scored.kind == "test"
    assert len(scored.nodes) == 40 - model.labels_seen_["train"]
    names: list[str] = []
    rows = compare_methods(model, scored, names.append)
    assert [row["method"] for row in rows] == ["cge", "label propagation"]
    assert names == ["label propagation"]
    alone = quick_cge("uniform", classifier="mlp", max_epochs=5, validation_fraction=0.0).fit(
        two_groups(), partial_labels()
    )
    assert scored_nodes(alone) is None
    assert report_contents(alone)["summary"][1] == "There are no labels to score the model on."


def test_the_explained_classifier_of_an_ensemble_is_named(browser: Any, tmp_path: Path) -> None:
    model = quick_cge(
        "degree",
        classifier="mlp",
        n_estimators=2,
        label_propagation=False,
        hops=1,
        max_epochs=3,
        validation_fraction=0.0,
    )
    model.fit(with_sparse_features(two_groups()), partial_labels())
    fitted: Any = model.fitted_
    fitted.ensemble[0][1].output_bias[:] += [-9.0, 9.0]  # always predicts 1
    fitted.ensemble[1][1].output_bias[:] += [99.0, -99.0]  # predicts 0 with higher confidence
    write_page(model, tmp_path / "report.html")
    tab, problems = open_page(browser, tmp_path / "report.html")
    averages = (
        "The model averages the probabilities of 2 classifiers; scores and paths here are those of the first, 'mlp'."
    )
    assert averages in tab.text_content("#explorer-caption")
    explained = "The probability is that of the first of 2 averaged classifiers, 'mlp'."
    assert explained in tab.text_content("#faithfulness-caption")
    assert "Predicted: 0 (50.0 %)" in tab.text_content("#node-card")
    assert "The explained classifier by itself predicts 1;" in tab.text_content("#node-card")
    assert problems == []
    tab.context.close()
    assert report_contents(hostile()[0])["nodes"]["classifier_prediction"] is None


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
@pytest.mark.parametrize("kind", ["many classes", "multilabel", "paper"])
def test_pages_of_other_models(browser: Any, tmp_path: Path, kind: str) -> None:
    many = np.arange(40) % 20  # more classes than there are colors
    if kind == "paper":
        small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 2}
        model = make_estimator(cge.PaperCGE, {**small, "setting": "transductive", "weighting": "average"}).fit(
            two_groups(features=False), partial_labels()
        )
    else:
        model = quick_cge("degree", classifier="mlp", label_propagation=False, hops=2, max_epochs=5)
        model.fit(with_sparse_features(two_groups()), many if kind == "many classes" else task_labels(True)[0])
    file = tmp_path / "report.html"
    write_page(model, file)
    tab, problems = open_page(browser, file, 390)
    assert problems == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    charts = {chart.get_attribute("id") for chart in tab.query_selector_all(".chart.js-plotly-plot")}
    assert charts >= {"accuracy", "reliability", "curve", "scatter", "weight-by-class", "deletion"}
    axis = "weight A(p) of the network, from 0 to 1" if kind == "paper" else "relative weight"
    assert tab.text_content("#histogram .xtitle") == axis
    axes = [tab.text_content(f"#reliability .{axis}title") for axis in "xy"]
    of_classes = ["predicted probability", "share of nodes that have the class"]
    assert axes == (of_classes if kind == "multilabel" else ["confidence", "accuracy"])
    assert "by-class" in charts
    assert (kind == "multilabel") == ("confusion" not in charts)
    assert tab.query_selector_all("#node-card .path svg circle")
    legend = tab.eval_on_selector_all("#scatter .legendtext", TEXTS)
    assert len(legend) <= 11
    assert ("10 other classes" in legend) == (kind == "many classes")
    if kind == "many classes":
        for chart in ("confusion", "weight-by-class"):
            boxes = [tick.bounding_box() for tick in tab.query_selector_all(f"#{chart} .xtick text")]
            title = tab.query_selector(f"#{chart} .xtitle").bounding_box()
            assert len(boxes) == 20
            assert max(box["y"] + box["height"] for box in boxes) <= title["y"] + 1
        whole, last = (
            tab.query_selector(selector).bounding_box() for selector in ("#scatter", "#scatter .traces:last-child")
        )
        assert last["y"] + last["height"] <= whole["y"] + whole["height"]
    tab.context.close()


@pytest.mark.parametrize("weighting", ["uniform", "average"])
def test_captions_of_the_papers_weights(weighting: str) -> None:
    small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 2}
    model = make_estimator(cge.PaperCGE, {**small, "setting": "transductive", "weighting": weighting})
    contents = report_contents(model.fit(two_groups(features=False), partial_labels()))
    captions, uniform = contents["captions"], "Weighting: uniform. There is no network: A(p) = 1 for every path."
    if weighting == "uniform":
        assert captions["weighting-caption"] == contents["weighting"][0] == uniform
    else:
        assert "the output of the network" in captions["weighting-caption"]
    assert captions["weight-by-class-title"] == "Weight A(p) by class"
    assert "geometric mean of the weights A(p) of these paths" in captions["weight-by-class-caption"]
    assert "the part of a node's vector that is attributed to paths" in captions["faithfulness-caption"]
    assert not any("elative weight" in text or "propagated inputs" in text for text in captions.values())
    weight = "A(p) = 1 for every path." if weighting == "uniform" else "A(p): weight of path p, from 0 to 1"
    assert weight in captions["explorer-caption"]
    assert "“Ends at” says which data of the last node contribute: its vector." in captions["explorer-caption"]
    assert "A path is a walk: nodes may repeat. In the drawings" in captions["explorer-caption"]  # without self-loops
    assert "an attribution, not an exact sum" in captions["explorer-caption"]
    assert ("Uniform weights: A(p) = 1 for every path." in contents["weighting"]) == (weighting == "average")


RELATIVE_WEIGHT = "Relative weight: path weight A(p) divided by that in a random walk (uniform weights)."
OF_A_NETWORK = (
    "Relative weight: output of the network (0 to 1) times the weight under the fixed weighting (nothing learned)"
)
SELF_LOOPS = "A path is a walk: nodes may repeat, and every node has a self-loop."
UNIFORM = "Uniform weights: those of a random walk that chooses edges with probability proportional to their weights."


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("weighting", ["uniform", "degree", "lstm", "metapaths"])
def test_captions_of_the_path_explorer(weighting: str, labels: bool) -> None:
    """They depend on what paths end at, on what their weights are, and on whether they use self-loops."""
    graph = two_groups(features=weighting != "lstm")
    if weighting == "metapaths":
        pairs = list(zip(*graph.to_scipy().nonzero(), strict=True))
        types = ["ab"[(source + target) % 2] for source, target in pairs]
        graph = cge.Graph.from_edges(pairs, features=graph.features, num_nodes=len(graph), edge_types=types)
    settings: dict[str, Any] = {"hops": 2, "walks_per_node": 2, "outer_steps": 3, "warmup_steps": 1, "max_epochs": 3}
    model = quick_cge(weighting, classifier="mlp", label_propagation=labels, validation_fraction=0.0, **settings)
    contents = report_contents(model.fit(graph, partial_labels()))
    caption = contents["captions"]["explorer-caption"]
    inputs, part = ("inputs", "its walk embedding") if weighting == "lstm" else ("features", "its features")
    assert f"with what their {inputs}{' and training labels' * labels} contribute" in caption
    assert (
        f"“Ends at” says which data of the last node contribute: {part}{' or its training label' * labels}." in caption
    )
    weight = OF_A_NETWORK if weighting == "lstm" else RELATIVE_WEIGHT
    assert weight in caption
    assert weight in contents["captions"]["weighting-caption"]
    assert (SELF_LOOPS in caption) == (weighting != "metapaths")
    if weighting == "metapaths":
        assert ("Only paths that end at labels use self-loops." in caption) == labels
        paths = [path for node in model.node_ids_[:5].tolist() for path in model.explain(node, top=50)]
        looping = {path.ends_at for path in paths if any(u == v for u, v in pairwise(path.path))}
        assert looping == ({"label"} if labels else set())
    assert "The model averages" not in caption
    assert (UNIFORM in contents["weighting"]) == (weighting != "uniform")
    which = "its (up to 5) paths with the largest contributions"
    which = f"those of {which} that end at inputs, not at labels" if labels else which
    strongest = contents["captions"].get("strongest-caption")
    if weighting == "uniform":  # all relative weights are one: there are no charts
        assert strongest is None
    else:
        start = f"The following charts show, for each node, {which}. Because these paths are selected"
        assert strongest is not None
        assert strongest.startswith(start)
    assert {kind for paths in contents["paths"] for *_, kind in paths} <= {inputs, *["label"] * labels}


def test_curves_have_the_name_of_the_validation_score() -> None:
    def curve(labels: Any, **settings: Any) -> str:
        model = quick_cge("degree", classifier="mlp", label_propagation=False, hops=1, max_epochs=5, **settings)
        contents = report_contents(model.fit(with_sparse_features(two_groups()), labels))
        return str(next(each["name"] for each in contents["curves"] if each["is_accuracy"]))

    assert curve(TRUE_LABELS) == "validation accuracy"
    assert curve(TRUE_LABELS, scoring="macro_f1") == "validation macro-F1"
    assert curve(task_labels(True)[0]) == "validation micro-F1"


def test_the_command_compares_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = with_sparse_features(two_groups())
    quick_cge("degree", classifier="mlp", hops=2, max_epochs=5).fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    ).save(tmp_path / "model")
    out, labels = str(tmp_path / "page.html"), tmp_path / "test.csv"
    labels.write_text("node,label\n" + "".join(f"{node},{TRUE_LABELS[node]}\n" for node in range(40)))
    methods = []
    for flags in ([], ["--compare"]):  # uniform weights take another fit
        result = json_of(capsys, "report", str(tmp_path / "model"), "--out", out, "--labels", str(labels), *flags)
        methods.append({row["method"] for row in result["accuracy"]})
    assert methods[1] - methods[0] == {"cge (uniform weights)"}
    used = (partial_labels() >= 0) | (partial_labels(TRUE_LABELS, 4) >= 0)
    assert result["scored_on"] == {"labels": int((~used).sum()), "kind": "test"}
    assert len(result["accuracy"]) == 5
    assert result["weighting_comparison"]["weighting"] == "degree"
    result = json_of(capsys, "report", str(tmp_path / "model"), "--out", out, "--no-compare")
    assert ([row["method"] for row in result["accuracy"]], result["scored_on"]["kind"]) == (["cge"], "validation")
    assert 0 <= result["calibration_error"] <= 1
    labels.write_text("who,what,node\n" + "".join(f"{node},{TRUE_LABELS[node]},x\n" for node in range(40)))
    columns = ["--node-column", "who", "--label-column", "what", "--no-compare"]
    result = json_of(capsys, "report", str(tmp_path / "model"), "--out", out, "--labels", str(labels), *columns)
    assert result["scored_on"]["kind"] == "test"
    assert run(["report", str(tmp_path / "model"), "--out", out, *columns]) == 2
    assert (
        capsys.readouterr().err == "cge: --node-column describes the file of --labels; add --labels, or leave it out\n"
    )
    labels.write_text("node,label\n1,0\n1,1\n")
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels)]) == 2
    assert capsys.readouterr().err.endswith("keep one label for each node, as in training\n")
    labels.write_text("node,label\n0,0\n")
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels)]) == 2
    assert "every node in it has a training or validation label" in capsys.readouterr().err
    labels.write_text("node,label\n0,up\n")
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels)]) == 2
    assert capsys.readouterr().err == (
        f"cge: {labels} has the class 'up', which is no class of the model; its classes are '0', '1'\n"
    )


def test_the_page_has_a_name_and_the_settings() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier="mlp", hops=2, max_epochs=5, label_propagation="auto").fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    contents = report_contents(model)
    assert contents["title"] == "cge: 40 nodes"
    assert contents["summary"][0].startswith("40 nodes, ")
    assert report_contents(model, title="mine")["summary"][0].startswith("mine: 40 nodes, ")
    settings = dict(contents["settings"])
    assert settings["hops"] == "2"
    assert settings["label_propagation"] == f"auto: {model.label_propagation_}"
    assert (settings["inputs"], settings["dim"]) == ("auto: features", str(model.dim or 32))
    assert settings.keys() & {"walk_length", "window", "negatives", "walks_per_node"} == set()
    assert ("outer_steps" in settings) == (model.labels_seen_["outer"] > 0)


def test_settings_without_effect_are_left_out() -> None:
    graph = with_sparse_features(two_groups())

    def settings_of(classifier: str, validation: Any, **settings: Any) -> dict[str, str]:
        model = quick_cge("degree", classifier=classifier, hops=1, max_epochs=8, **settings)
        return dict(report_contents(model.fit(graph, partial_labels(), validation))["settings"])

    augmentation = {"n_augmentations", "drop_node", "drop_feature", "dropout", "consistency_weight", "sharpening"}
    optimization = {"learning_rate", "weight_decay", "max_epochs", "patience"}
    of_validation = {"validation_fraction", "refit"}
    validation = partial_labels(TRUE_LABELS, 4)
    logistic = settings_of("logistic-unit", validation)
    assert logistic.keys() & (augmentation | optimization | of_validation | {"dim"}) == set()
    mlp = settings_of("mlp", None)
    assert (augmentation | optimization | of_validation | {"dim"}) - mlp.keys() == {"sharpening"}
    assert settings_of("mlp", validation, consistency_weight=1.0)["sharpening"] == "0.1"
    assert (augmentation | {"dim"}) - settings_of("sparse", validation).keys() == {"dim", "dropout"}


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
def test_the_labels_and_the_loss_of_the_outer_problem_of_the_paper() -> None:
    quick: dict[str, Any] = {"weighting": "average", "dim": 4, "pretrain": 1, "max_epochs": 1, "walks_per_node": 1}

    def contents_of(**settings: Any) -> dict[str, Any]:
        model = make_estimator(cge.PaperCGE, quick | settings)
        model.fit(two_groups(), partial_labels(), partial_labels(TRUE_LABELS, 4))
        return report_contents(model)

    folds, halves, paper = (
        contents_of(**settings) for settings in ({}, {"outer_labels": "validation"}, {"outer": "paper"})
    )
    assert "14 training labels, 6 validation labels." in folds["summary"][0]
    assert "Path weights were learned on 14 training labels." in folds["summary"][0]
    assert "3 validation labels. Path weights were learned on 3 other validation labels." in halves["summary"][0]
    assert "Path weights were learned" not in paper["summary"][0]
    assert "Outer loss: loss on held-out labels" in folds["captions"]["curves-caption"]
    assert "Outer loss: weighted path loss after a trial gradient step" in paper["captions"]["curves-caption"]
    assert {"outer_paths", "outer"} <= dict(folds["settings"]).keys()
    uniform = contents_of(weighting="uniform")
    assert {"outer_paths", "outer", "n_folds"} & dict(uniform["settings"]).keys() == set()


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
def test_the_weighting_caption_defines_its_terms() -> None:
    """The page opens offline, so it has no other place for definitions."""
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier="logistic-unit", hops=1, max_epochs=8).fit(graph, partial_labels())
    model.weighting_ = "1 hop (b=0.5)"  # which only the model search selects
    caption = report_contents(model)["captions"]["weighting-caption"]
    assert "normalization exponent b = 0.5" in caption
    assert "b = 0 as in a random walk, b = ½ as in GCN." in caption
    assert "logistic-unit (logistic regression on propagated inputs of unit length)" in caption
    assert "Propagated inputs of a node: the sum over all paths that start at it" in caption
    network = quick_cge("average", classifier="mlp", hops=1, max_epochs=3, outer_steps=1, warmup_steps=1)
    caption = report_contents(network.fit(graph, partial_labels()))["captions"]["weighting-caption"]
    assert "the sum over its sampled paths" in caption
    assert "Normalization exponent" not in caption
