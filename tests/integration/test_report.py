"""The report, in a real browser: it loads offline, draws, answers, and takes hostile names for what they are."""

from __future__ import annotations

import json
import shlex
import struct
import sys
from importlib.machinery import ModuleSpec
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

import cge
from cge.cli.main import run
from cge.estimators.configs import make_estimator
from cge.explain.faithfulness import SHARES
from cge.report import compared, measured_by, write_page
from cge.report.contents import facts_of
from cge.store import pack_values
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features

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
ORDERS = ["strongest first", "heaviest first", "random order"]  # in which paths go


def hostile() -> tuple[cge.CGE, np.ndarray]:
    """Return a model of a graph with names that try to break out, and the labels of all nodes."""
    graph = with_sparse_features(two_groups())
    ids = [HOSTILE[node] if node < len(HOSTILE) else f"node {node}" for node in range(len(graph))]
    source = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    pairs = [(ids[u], ids[v]) for u, v in zip(source, graph.indices, strict=True) if u < v]
    named = cge.Graph.from_edges(pairs, node_ids=ids, features=graph.features)
    classes = np.array(CLASSES)
    y = {ids[node]: str(classes[TRUE_LABELS[node]]) for node in np.flatnonzero(partial_labels() >= 0)}
    validation = {
        ids[node]: str(classes[TRUE_LABELS[node]]) for node in np.flatnonzero(partial_labels(TRUE_LABELS, 4) >= 0)
    }
    model = quick_cge("cosine", classifier="consistency", label_propagation="no").fit(named, y, validation)
    places = np.searchsorted(model.classes_, classes)
    return model, places[TRUE_LABELS]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, truth = hostile()
    file = tmp_path_factory.mktemp("report") / "report.html"
    size = write_page(model, file, name="<b>hostile</b>", truth=truth)
    assert file.stat().st_size == size
    return file


def opened(browser: Any, page: Path, width: int = 1200, scheme: str = "light") -> tuple[Any, list[str]]:
    """Open the page and return it with everything that went wrong."""
    wrong: list[str] = []
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    tab.on("console", lambda one: wrong.append(one.text) if one.type in ("error", "warning") else None)
    tab.on("pageerror", lambda one: wrong.append(str(one)))
    tab.on("request", lambda one: None if one.url.startswith(("file:", "data:", "blob:")) else wrong.append(one.url))
    tab.on("dialog", lambda one: (wrong.append("a dialog"), one.dismiss()))
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    return tab, wrong


# What sticks out of the window; a table or a command that is too wide scrolls by itself.
BEYOND = """() => [...document.querySelectorAll("body *")].filter((one) => {
  const box = one.getBoundingClientRect();
  const beyond = box.right > innerWidth + 0.5 || box.left < -0.5;
  return box.width && beyond && !one.closest("pre, .scroll, .skip, svg, datalist");
}).map((one) => one.tagName + "#" + one.id + "." + one.className)"""


def picture_width(tab: Any, file: Path) -> int:
    """Take a picture of the whole page and return its width in pixels."""
    tab.screenshot(path=str(file), full_page=True)
    width, _ = struct.unpack(">II", file.read_bytes()[16:24])  # the header of a PNG
    return int(width)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")])
def test_the_page_opens_without_network_errors_or_overflow(
    browser: Any, page: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    tab, wrong = opened(browser, page, width, scheme)
    assert wrong == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert tab.evaluate("document.documentElement.dataset.theme") == scheme
    assert picture_width(tab, tmp_path / f"{width}-{scheme}.png") == width
    assert tab.evaluate(BEYOND) == []
    drawn = {one.get_attribute("id") for one in tab.query_selector_all(".chart.js-plotly-plot")}
    assert drawn >= {"accuracy", "reliability", "curve", "scatter", "confusion", "edges", "hops"}
    heads = tab.eval_on_selector_all("#toc a", "all => all.map((one) => one.textContent)")
    assert heads == tab.eval_on_selector_all("main h2", "all => all.map((one) => one.textContent)")
    tab.context.close()


def test_hostile_names_stay_text(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    assert tab.title() == "cge: <b>hostile</b>"
    for name in HOSTILE:
        # As JavaScript writes it: half a pair is lost on the way from Python.
        tab.evaluate(f"document.getElementById('node').value = {json.dumps(name)}")
        tab.press("#node", "Enter")
        head = "document.querySelector('#one h3')"
        assert tab.evaluate(f"({head}.title || {head}.textContent) === {json.dumps(name)}")
        assert tab.evaluate(f"{head}.textContent.length <= 120")
    assert tab.query_selector_all("#one script, #one img, #one b, #scatter img") == []
    assert tab.title() == "cge: <b>hostile</b>"
    assert wrong == []
    tab.context.close()


def test_hostile_names_stay_text_in_charts(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    texts = "all => all.map((one) => one.textContent)"
    assert sorted(tab.eval_on_selector_all("#scatter .legendtext", texts)) == sorted(CLASSES)
    for axis in ("xtick", "ytick"):
        assert sorted(tab.eval_on_selector_all(f"#confusion .{axis} text", texts)) == sorted(CLASSES)
    hover = """(name) => {
      const cloud = document.getElementById("scatter");
      const curve = cloud.data.findIndex((one) => one.text.some((text) => text.startsWith("<b>" + name)));
      const point = cloud.data[curve].text.findIndex((text) => text.startsWith("<b>" + name));
      Plotly.Fx.hover(cloud, [{ curveNumber: curve, pointNumber: point }]);
    }"""
    for name in HOSTILE[:-1]:
        short = name if len(name) <= 60 else name[:59] + "…"
        tab.evaluate(hover, short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
        tab.wait_for_timeout(150)  # it looks again after a while only
        told = tab.text_content("#scatter .hoverlayer")
        assert told.startswith(short), name
        assert any(f"predicted: {one} (" in told for one in CLASSES)
    tab.evaluate("document.getElementById('confusion').scrollIntoView({ block: 'center', behavior: 'instant' })")
    box = tab.query_selector("#confusion .nsewdrag").bounding_box()
    for away in (4, 0):  # the corner is a cell of one class taken for the other
        tab.mouse.move(box["x"] + 0.75 * box["width"] + away, box["y"] + 0.25 * box["height"])
        tab.wait_for_timeout(150)
    told = tab.text_content("#confusion .hoverlayer")
    assert all(one in told for one in CLASSES)
    assert tab.query_selector_all(".chart script, .chart img, .chart i, .chart b") == []
    assert wrong == []
    tab.context.close()


def test_the_explorer_shows_paths_neighbors_and_says_what_is_not_there(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    tab.fill("#node", "node 20")
    tab.press("#node", "Enter")
    assert tab.text_content("#one h3") == "node 20"
    assert tab.query_selector_all("#one .path svg circle")
    assert set(tab.eval_on_selector_all("#one .classes li", "all => all.map((one) => one.textContent)")) <= {
        "<i>one</i>",
        "</script>two",
    }
    fills = tab.eval_on_selector_all("#one .path svg circle", "all => all.map((one) => one.getAttribute('fill'))")
    assert len(set(fills)) == len(tab.query_selector_all("#one .classes li")) > 0
    best = hostile()[0].explain("node 20", top=1)[0]
    brings = f"{abs(best.contribution):.3g}".rstrip("0")
    assert f"brings {'+' if best.contribution > 0 else '−'}{brings}" in (tab.text_content("#one .numbers") or "")
    near = tab.query_selector("#one .near button")
    assert near is not None
    near.focus()
    tab.keyboard.press("Enter")  # no mouse is needed
    assert tab.text_content("#one h3") != "node 20"
    tab.fill("#node", "nobody")
    tab.press("#node", "Enter")
    assert "no such node" in (tab.text_content("#not-found") or "")
    assert tab.query_selector("#one h3") is None  # nobody takes the last node for this one
    near = tab.eval_on_selector_all("#not-found button", "all => all.map((one) => one.textContent)")
    assert near == [f"node {one}" for one in range(len(HOSTILE), len(HOSTILE) + 5)]
    tab.click("#not-found button")
    assert (tab.text_content("#one h3"), tab.text_content("#not-found")) == (f"node {len(HOSTILE)}", "")
    tab.fill("#node", "  node 21 ")
    tab.press("#node", "Enter")
    assert tab.text_content("#one h3") == "node 21"
    assert tab.text_content("#offered") == ""
    assert wrong == []
    tab.context.close()


def test_hovering_and_clicking_the_map_tells_of_a_node(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    assert len(tab.query_selector_all("#scatter .scatterlayer .point")) == 40
    tab.evaluate("document.getElementById('scatter').scrollIntoView({ block: 'center', behavior: 'instant' })")
    # Where points lie in the window, by the axes, with what the map says of them.
    points = tab.evaluate(
        """() => {
      const cloud = document.getElementById("scatter"), box = cloud.getBoundingClientRect();
      const { xaxis, yaxis } = cloud._fullLayout;
      return cloud.data.flatMap((one) => one.x.map((x, place) => ({
        text: one.text[place],
        x: box.left + xaxis._offset + xaxis.d2p(x),
        y: box.top + yaxis._offset + yaxis.d2p(one.y[place]),
      })));
    }"""
    )
    places = np.array([[one["x"], one["y"]] for one in points])
    apart = np.linalg.norm(places[:, None] - places, axis=2) + 1e9 * np.eye(40)
    plain = [one["text"].startswith("<b>node ") for one in points]
    ids = [one["text"][3:].partition("</b>")[0] for one in points]
    before = tab.text_content("#one h3")
    place = next(one for one in np.argsort(-apart.min(1)).tolist() if plain[one] and ids[one] != before)
    for away in (3, 2, 1, 0):  # the map looks at a mouse that moves
        tab.mouse.move(places[place, 0] + away, places[place, 1])
        tab.wait_for_timeout(100)
    tab.wait_for_selector("#scatter .hoverlayer .hovertext", timeout=5000)
    hovered = tab.text_content("#scatter .hoverlayer")
    assert hovered.startswith(f"{ids[place]}label: ")
    assert "predicted: " in hovered
    tab.mouse.down()
    tab.mouse.up()
    tab.wait_for_selector(f'#one h3:text-is("{ids[place]}")', timeout=5000)
    assert tab.input_value("#node") == ids[place]
    assert wrong == []
    tab.context.close()


def test_paths_are_taken_away_and_given_back(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    lines = "id => document.getElementById(id).data.map((one) => [one.name, one.y[0], one.y.at(-1), one.x.length])"
    mean = (
        "id => document.getElementById(id).data.map((one) => one.y.reduce((sum, other) => sum + other) / one.y.length)"
    )
    (strongest, _, random), (found, _, drawn) = (tab.evaluate(mean, way) for way in ("deletion", "insertion"))
    assert strongest < random
    assert found > drawn
    away, back = (tab.evaluate(lines, way) for way in ("deletion", "insertion"))
    assert [name for name, *_ in away] == [name for name, *_ in back] == ORDERS
    assert {points for *_, points in away + back} == {len(SHARES)}
    for (_, begin, end, _), (_, first, last, _) in zip(away, back, strict=True):
        assert (begin, end) == pytest.approx((last, first), abs=1e-3)  # all paths, and none
    format_value = tab.eval_on_selector_all(
        "#insertion .legendtext, #insertion .xtitle", "all => all.map((one) => one.textContent)"
    )
    assert sorted(format_value) == sorted([*ORDERS, "paths given back"])
    assert wrong == []
    tab.context.close()


def test_no_button_of_a_chart_sends_anything_away(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    names = tab.eval_on_selector_all(".modebar-btn", "all => all.map((one) => one.dataset.title)")
    assert names == ["Zoom", "Pan", "Reset axes", "Download plot as a PNG"]
    assert "form-action 'none'" in tab.get_attribute("meta[http-equiv]", "content")
    tab.fill("#node", "node 20")
    tab.press("#node", "Enter")  # the form is read here, and goes nowhere
    assert tab.text_content("#one h3") == "node 20"
    assert wrong == []
    tab.context.close()


def test_ticks_of_powers_of_ten_have_all_their_digits(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    wide = {"type": "scatter", "x": [0.13, 5], "y": [1, 2]}
    tab.evaluate("(trace) => Plotly.react('histogram', [trace], document.getElementById('histogram').layout)", wide)
    ticks = tab.eval_on_selector_all("#histogram .xtick text", "all => all.map((one) => one.textContent)")
    numbers = [float(one) for one in ticks]
    assert numbers == sorted(numbers)
    assert {0.2, 0.5, 1, 2, 5} <= set(numbers)
    assert len(numbers) <= 7  # so that none lies on another
    assert wrong == []
    tab.context.close()


def test_charts_have_names_and_say_what_they_show(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    roles = tab.eval_on_selector_all(".chart", "all => all.map((one) => one.getAttribute('role'))")
    assert set(roles) == {"img"}
    told = {
        one.get_attribute("id"): one.get_attribute("aria-label") for one in tab.query_selector_all(".chart[aria-label]")
    }
    assert len(told) == len(roles)
    rows = facts_of(hostile()[0], truth=hostile()[1])["accuracy"]
    assert told["accuracy"] == f"Summary. cge {rows[0]['accuracy']:.3g}."
    assert told["scatter"].startswith("Map of the embedding. ")
    assert "<i>one</i>: 20 nodes" in told["scatter"]
    assert "</script>two: 20 nodes" in told["scatter"]
    assert told["hops"].startswith("How far (weight of hops). 0 ")
    assert told["confusion"].startswith("Confusion. the strongest color: label ")
    assert "without a mouse" in (tab.text_content("#colors-words") or "")
    assert wrong == []
    tab.context.close()


def test_the_theme_can_be_switched(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page)
    tab.click("#theme")
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    for chart, style, color in (
        ("#accuracy .errorbar path", "stroke", "rgb(230, 234, 240)"),
        ("#scatter [data-title='Reset axes'] path", "fill", "rgb(154, 166, 181)"),
    ):
        painted = "([one, style]) => getComputedStyle(document.querySelector(one))[style]"
        assert tab.evaluate(painted, [chart, style]) == color
    assert wrong == []
    tab.context.close()


def test_paper_is_light_whatever_the_screen_is(browser: Any, page: Path) -> None:
    tab, wrong = opened(browser, page, scheme="dark")
    colors = """() => [
      getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
      document.querySelector("#accuracy .xtick text").style.fill,
      getComputedStyle(document.querySelector("#one .path svg text")).fill,
    ]"""
    ink, screen = "rgb(28, 36, 48)", tab.evaluate(colors)
    assert ink not in screen
    tab.emulate_media(media="print", color_scheme="dark")
    tab.wait_for_selector("html[data-theme=light]", timeout=5000)
    assert tab.evaluate(colors) == ["rgb(255, 255, 255)", ink, ink, ink]
    tab.emulate_media(media="screen", color_scheme="dark")
    tab.wait_for_selector("html[data-theme=dark]", timeout=5000)
    assert tab.evaluate(colors) == screen
    # As browsers tell it that print.
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate(colors)[2] == ink
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate(colors) == screen
    assert wrong == []
    tab.context.close()


def test_axes_say_what_weights_are(browser: Any, page: Path) -> None:
    tab, _ = opened(browser, page)
    assert tab.text_content("#histogram .xtitle") == "A, relative to a random walk"
    assert "paths that were selected for what they bring" in tab.text_content("#strong-words")
    tab.context.close()


# ---------------------------------------------------------------------- without a browser


def test_the_page_is_one_small_file_that_says_nothing_by_itself(page: Path) -> None:
    text = page.read_text()
    assert page.stat().st_size < 3_000_000
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "hostile" not in text  # what is the user's lies inside as compressed data


def test_what_the_page_counts_is_so() -> None:
    model, truth = hostile()
    facts = facts_of(model, name="x", truth=truth)
    known = {model.graph_.index_of(one) for one in np.array(model.node_ids_)[partial_labels() >= 0]}
    told = np.searchsorted(model.classes_, model.predict())
    chosen = set(model._fitted.chosen.nodes.tolist())
    tested = [node for node in range(40) if node not in known | chosen]
    expected = np.zeros((2, 2), int)
    for node in tested:
        expected[truth[node], told[node]] += 1
    assert facts["confusion"] == expected.tolist()
    right = np.trace(expected) / len(tested)
    assert facts["accuracy"][0]["accuracy"] == pytest.approx(right)
    assert f"{100 * right:.1f} % are right" in facts["words"][1]
    assert sum(facts["nodes"]["trained"]) == len(known)
    node = 20
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    order = [other for other in np.argsort(-(unit @ unit[node]), kind="stable").tolist() if other != node]
    assert facts["near"][node] == order[:6]
    expected_paths = model.explain(model.node_ids_[node], top=5)
    for (path, weight, brings), one in zip(facts["paths"][node], expected_paths, strict=True):
        assert [model.node_ids_[key] for key in path] == list(one.path)
        assert (weight, brings) == pytest.approx((one.weight, one.contribution), rel=1e-3)


def test_a_large_graph_is_thinned_and_paths_may_lead_off_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    model, truth = hostile()
    monkeypatch.setattr("cge.report.contents._MOST_NODES", 15)
    facts = facts_of(model, truth=truth)
    nodes, ids = facts["nodes"], model.node_ids_.tolist()
    assert len(nodes["keys"]) == len(nodes["x"]) == len(facts["paths"]) == 15 < len(nodes["id"]) == len(nodes["told"])
    assert "15 of 40 nodes are shown" in facts["hints"]["map-words"]
    on_the_map = [ids.index(nodes["id"][key]) for key in nodes["keys"]]
    assert on_the_map == sorted(on_the_map)
    assert sum(nodes["trained"][:15]) >= 7  # half of the room is for those that trained
    for key, mine in enumerate(facts["paths"]):
        assert len(mine) == 5
        for path, weight, _ in mine:
            assert path[0] == key
            assert weight == pytest.approx(model.path_weights([[nodes["id"][one] for one in path]])[0], rel=1e-3)
    assert max(max(row) for row in facts["near"]) < 15


class Umap(ModuleType):
    """Stands in for umap-learn: the two first numbers of each vector, and what it was asked."""

    def __init__(self) -> None:
        super().__init__("umap")
        self.__spec__ = ModuleSpec("umap", None)
        self.asked: list[dict[str, Any]] = []

    def UMAP(self, **settings: Any) -> Any:  # noqa: N802 - as there
        self.asked.append(settings)
        return SimpleNamespace(fit_transform=lambda vectors: vectors[:, :2])


def test_the_map_is_drawn_by_umap_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = quick_cge("degree", classifier="mlp", hops=1, max_epochs=3, validation_fraction=0.0, random_state=5)
    model.fit(with_sparse_features(two_groups()), partial_labels()).save(tmp_path / "model")
    plain = facts_of(model)
    assert "(the first two principal components)" in plain["hints"]["map-words"]
    assert "UMAP" not in plain["hints"]["map-words"]
    monkeypatch.setitem(sys.modules, "umap", None)  # not installed
    asked = ["report", str(tmp_path / "model"), "--out", str(tmp_path / "page.html"), "--map"]
    assert run([*asked, "umap"]) == 2
    assert capsys.readouterr().err == (
        "cge: --map 'umap' needs the package umap-learn; pip install 'cge[umap]', or use 'pca'\n"
    )
    assert run([*asked, "tsne"]) == 2
    assert capsys.readouterr().err == "cge: --map must be 'pca' or 'umap', found 'tsne'\n"
    assert not (tmp_path / "page.html").exists()
    stand_in = Umap()
    monkeypatch.setitem(sys.modules, "umap", stand_in)
    found = facts_of(model, flat="umap")
    assert "(UMAP, " in found["hints"]["map-words"]
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    assert found["nodes"]["x"] == pytest.approx(unit[:, 0].tolist(), abs=1e-4)
    assert found["nodes"]["y"] == pytest.approx(unit[:, 1].tolist(), abs=1e-4)
    assert found["nodes"]["x"] != plain["nodes"]["x"]
    assert run([*asked, "umap", "--quiet"]) == 0
    assert stand_in.asked == [{"n_components": 2, "n_neighbors": 15, "random_state": 5, "n_jobs": 1}] * 2


def test_the_page_tells_what_trained_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, small = with_sparse_features(two_groups()), {"max_epochs": 2, "classifier": "mlp", "hops": 1, "dim": 4}
    alone = make_estimator(cge.CGE, {**small, "weighting": "degree"}).fit(graph, partial_labels())
    assert facts_of(alone)["command"] == (
        "cge.CGE(dim=4, hops=1, random_state=0, reader='plain', rounds=2, weighting='degree').fit(graph, y)"
    )
    given = make_estimator(cge.CGE, {**small, "weighting": "degree", "refit": False}).fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    assert facts_of(given)["command"].endswith("refit=False, rounds=2, weighting='degree').fit(graph, y, validation)")
    given.save(tmp_path / "python")
    again = cge.load(tmp_path / "python")
    assert facts_of(again)["command"] == facts_of(given)["command"]
    facts = given._fitted.facts()  # type: ignore[union-attr]
    again._unpack(graph, facts, given._fitted.arrays() | pack_values(given.classes_, "classes."))  # type: ignore[union-attr]
    assert again.fit_call_ == {"command": "", "validation": False}  # an older folder does not tell
    monkeypatch.chdir(tmp_path)
    Path("my edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in pairwise(range(12))))
    Path("labels.csv").write_text("node,label\n" + "".join(f"{node},{'ab'[node > 5]}\n" for node in range(0, 12, 2)))
    words_typed = [
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
    assert run(["--debug", *words_typed, "--quiet", "--resume"]) == 0
    told = facts_of(cge.load("model"))["command"]
    assert told == "cge fit 'my edges.csv' --labels labels.csv --rounds 2 --seed 3 --out model --quiet"
    assert run(["fit", *shlex.split(told)[2:]]) == 0


def test_colors_go_to_the_largest_classes_and_every_label_counts() -> None:
    lists = {node: ["a", "m"] if node % 2 else ["m", "z"] for node in range(0, 40, 3)}
    lists |= {node: [f"class {node}"] for node in range(1, 40, 3)}
    model = quick_cge("degree", classifier="mlp", label_propagation="no", hops=1, max_epochs=5, validation_fraction=0.0)
    model.fit(with_sparse_features(two_groups()), lists)
    facts = facts_of(model)
    nodes, names = facts["nodes"], facts["classes"]
    assert [names[nodes["shade"][node]] for node in (0, 3, 1)] == ["m", "m", "class 1"]
    assert nodes["shade"][2] == nodes["told"][2]  # without a label
    assert names[facts["groups"][0]["classes"][0]] == "m"
    own = [names[group["classes"][0]] for group in facts["groups"][:10]]
    assert {"a", "m", "z"} <= set(own)
    assert len(facts["groups"][-1]["classes"]) == len(names) - 10
    probabilities = model.predict_proba()
    for node, said in enumerate(nodes["said"]):
        assert {names[one] for one, _ in said} == {names[one] for one in np.flatnonzero(probabilities[node] > 0.5)}
        assert [chance for _, chance in said] == sorted((chance for _, chance in said), reverse=True)
    assert "largest of these classes" in facts["hints"]["colors-words"]
    assert "The 10 largest classes have colors" in facts["hints"]["colors-words"]


def test_a_page_needs_a_trained_model() -> None:
    with pytest.raises(cge.CgeError, match="call fit first"):
        facts_of(cge.CGE())


SEVERAL = np.eye(2, dtype=int)[TRUE_LABELS] | (np.arange(40) % 5 == 0)[:, None]


def rows_of(several: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return training and selection labels."""
    if not several:
        return partial_labels(), np.where(partial_labels() >= 0, -1, partial_labels(TRUE_LABELS, 4))
    train, chosen = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    return SEVERAL * train[:, None], SEVERAL * chosen[:, None]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_models_are_compared_by_labels_that_did_not_train(several: bool, given: bool) -> None:
    graph, (y, validation) = with_sparse_features(two_groups()), rows_of(several)
    model = quick_cge("degree", classifier="mlp", label_propagation="no", hops=2, max_epochs=5)
    model.fit(graph, y, validation if given else None)
    measured = measured_by(model)
    assert measured is not None
    assert not measured.unseen
    assert len(measured.nodes) == model.labels_seen_["selection"]
    there = y.any(axis=1) if several else y >= 0
    assert there[measured.nodes].all() == (not given)
    if given:  # nothing was trained again, so these are the model's own
        np.testing.assert_allclose(measured.probabilities, model.predict_proba()[measured.nodes], atol=1e-6)
    rows = compared(model, measured)
    if several:
        expected = f1_score(measured.truth, measured.probabilities > 0.5, average="micro")
    else:
        expected = max((model.selection_history_ or model.history_).column("validation_accuracy"))
    assert rows[0]["accuracy"] == pytest.approx(expected)
    assert [row["method"] for row in rows[:2]] == ["cge", "cge, A ≡ 1"]
    assert {row["method"] for row in rows[2:]} == {"SGC", "features only", "label propagation"}
    assert all(row["interval"][0] <= row["accuracy"] <= row["interval"][1] for row in rows)
    assert rows[1]["gain"].mean == pytest.approx(rows[0]["accuracy"] - rows[1]["accuracy"]) or several
    facts = facts_of(model, accuracy=rows)
    assert "whose labels chose" in facts["words"][1]
    assert "label propagation" in facts["words"][2]
    assert "In this comparison they are" in facts["verdict"][-1]
    assert (facts["confusion"] is None) == several == (facts["by_class"] is not None)
    assert sum(facts["reliability"]["count"]) == len(measured.nodes) * (2 if several else 1)


def test_without_features_or_with_equal_weights_fewer_are_compared() -> None:
    model = quick_cge("none", classifier="mlp", hops=2, max_epochs=5, label_propagation="no").fit(
        two_groups(features=False), partial_labels()
    )
    measured = measured_by(model, TRUE_LABELS)
    assert measured is not None
    assert measured.unseen
    assert len(measured.nodes) == 40 - model.labels_seen_["train"]
    asked: list[str] = []
    rows = compared(model, measured, asked.append)
    assert [row["method"] for row in rows] == ["cge", "label propagation"]
    assert asked == ["label propagation"]
    lonely = quick_cge("none", classifier="mlp", max_epochs=5, validation_fraction=0.0).fit(
        two_groups(), partial_labels()
    )
    assert measured_by(lonely) is None
    assert "no labels to measure it by" in facts_of(lonely)["words"][1]


def test_one_of_several_readers_is_named(browser: Any, tmp_path: Path) -> None:
    model = quick_cge(
        "degree",
        classifier="mlp",
        n_estimators=2,
        label_propagation="no",
        hops=1,
        max_epochs=3,
        validation_fraction=0.0,
    )
    model.fit(with_sparse_features(two_groups()), partial_labels())
    fitted: Any = model._fitted
    with torch.no_grad():  # the first one always says 1, the second is surer of 0
        fitted.ensemble[0][1].score.bias += torch.tensor([-9.0, 9.0])
        fitted.ensemble[1][1].score.bias += torch.tensor([99.0, -99.0])
    write_page(model, tmp_path / "report.html")
    tab, wrong = opened(browser, tmp_path / "report.html")
    assert "Scores are those of reader 1 of 2 (plain)." in tab.text_content("#explorer-words")
    assert "The chance is that of reader 1 of 2 (plain)." in tab.text_content("#faithful-words")
    assert "Predicted: 0 (50.0 %)" in tab.text_content("#one")
    assert "The explained reader by itself says 1;" in tab.text_content("#one")
    assert wrong == []
    tab.context.close()
    assert facts_of(hostile()[0])["nodes"]["says"] is None


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
@pytest.mark.parametrize("kind", ["many", "several", "table"])
def test_other_models_have_a_page_too(browser: Any, tmp_path: Path, kind: str) -> None:
    many = np.arange(40) % 20  # more classes than there are colors
    if kind == "table":
        small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 2}
        model = make_estimator(cge.PaperCGE, {**small, "setting": "transductive", "weighting": "average"}).fit(
            two_groups(features=False), partial_labels()
        )
    else:
        model = quick_cge("degree", classifier="mlp", label_propagation="no", hops=2, max_epochs=5)
        model.fit(with_sparse_features(two_groups()), many if kind == "many" else rows_of(True)[0])
    file = tmp_path / "report.html"
    write_page(model, file)
    tab, wrong = opened(browser, file, 390)
    assert wrong == []
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    drawn = {one.get_attribute("id") for one in tab.query_selector_all(".chart.js-plotly-plot")}
    assert drawn >= {"accuracy", "reliability", "curve", "scatter", "relevance", "deletion"}
    axis = "A, what the network says, from 0 to 1" if kind == "table" else "A, relative to a random walk"
    assert tab.text_content("#histogram .xtitle") == axis
    assert ("by-class" in drawn) == (kind == "several") == ("confusion" not in drawn)
    assert tab.query_selector_all("#one .path svg circle")
    legend = tab.eval_on_selector_all("#scatter .legendtext", "all => all.map((one) => one.textContent)")
    assert len(legend) <= 11
    assert ("10 other classes" in legend) == (kind == "many")
    if kind == "many":
        for chart in ("confusion", "relevance"):
            boxes = [one.bounding_box() for one in tab.query_selector_all(f"#{chart} .xtick text")]
            title = tab.query_selector(f"#{chart} .xtitle").bounding_box()
            assert len(boxes) == 20
            assert max(box["y"] + box["height"] for box in boxes) <= title["y"] + 1
        whole, last = (tab.query_selector(one).bounding_box() for one in ("#scatter", "#scatter .traces:last-child"))
        assert last["y"] + last["height"] <= whole["y"] + whole["height"]
    tab.context.close()


def test_the_command_compares_and_says_by_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = with_sparse_features(two_groups())
    quick_cge("degree", classifier="mlp", hops=2, max_epochs=5).fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    ).save(tmp_path / "model")
    out, labels = str(tmp_path / "page.html"), tmp_path / "test.csv"
    labels.write_text("node,label\n" + "".join(f"{node},{TRUE_LABELS[node]}\n" for node in range(40)))
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    served = (partial_labels() >= 0) | (partial_labels(TRUE_LABELS, 4) >= 0)
    assert found["measured_by"] == {"labels": int((~served).sum()), "unseen": True}
    assert len(found["accuracy"]) == 5
    assert found["worth"]["weights"] == "degree"
    assert run(["report", str(tmp_path / "model"), "--out", out, "--no-compare", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert ([row["method"] for row in found["accuracy"]], found["measured_by"]["unseen"]) == (["cge"], False)
    assert 0 <= found["calibration_error"] <= 1
    labels.write_text("who,what,node\n" + "".join(f"{node},{TRUE_LABELS[node]},x\n" for node in range(40)))
    by = ["--node", "who", "--label", "what", "--no-compare", "--json"]
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels), *by]) == 0
    assert json.loads(capsys.readouterr().out)["measured_by"]["unseen"]
    assert run(["report", str(tmp_path / "model"), "--out", out, *by]) == 2
    assert capsys.readouterr().err == "cge: --node is about the file of --labels; give one, or leave it out\n"
    labels.write_text("node,label\n1,0\n1,1\n")
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels)]) == 2
    assert capsys.readouterr().err.endswith("keep one, as in training\n")
    labels.write_text("node,label\n0,0\n")
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels)]) == 2
    assert "every node in it has a label that trained the model" in capsys.readouterr().err
    labels.write_text("node,label\n0,up\n")
    assert run(["report", str(tmp_path / "model"), "--out", out, "--labels", str(labels)]) == 2
    assert capsys.readouterr().err == (
        f"cge: {labels} has the class 'up', which the model does not know; it knows '0', '1'\n"
    )


def test_the_page_names_what_is_known_and_shows_settings_that_count() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier="mlp", hops=2, max_epochs=5, label_propagation="auto").fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    facts = facts_of(model)
    assert facts["title"] == "cge: 40 nodes"
    assert facts["words"][0].startswith("A model of 40 nodes, ")
    assert facts_of(model, name="mine")["words"][0].startswith("A model of mine: 40 nodes, ")
    settings = dict(facts["settings"])
    assert settings["hops"] == "2"
    assert settings["label_propagation"] == f"auto: {'yes' if model.label_propagation_ else 'no'}"
    assert settings.keys() & {"walk_length", "window", "negatives"} == set()
