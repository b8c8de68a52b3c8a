"use strict";
(async () => {
  const element = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const unpack = async (id) => {
    const bytes = Uint8Array.from(atob(element(id).textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  if (typeof DecompressionStream === "undefined") {
    element("words").append(make("p", "This browser is too old for the charts of this page; any of 2023 or later shows them."));
    return;
  }
  const data = JSON.parse(await unpack("data"));
  const library = document.createElement("script");
  library.textContent = await unpack("library");
  document.head.append(library);
  const Plotly = window.Plotly;

  const short = (text, most = 28) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const color = (place) => (place < 0 ? "#8a94a3" : data.colors[place % data.colors.length]);
  const named = (place) => (place < 0 ? "unknown" : data.classes[place]);
  // What a chart shows is text: Plotly reads some tags in it, so these are defused.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // ---------------------------------------------------------------- words
  document.title = data.title;
  element("title").textContent = data.title;
  for (const line of data.words) element("words").append(make("p", line));
  for (const line of data.verdict) element("verdict").append(make("p", line));
  for (const [id, text] of Object.entries(data.hints)) if (element(id)) element(id).textContent = text;
  element("command").textContent = data.command;
  for (const [name, value] of data.settings) {
    const row = make("tr");
    const head = make("th", name);
    head.scope = "row";
    row.append(head, make("td", value));
    element("table").append(row);
  }
  element("footer").textContent = data.footer;

  // ---------------------------------------------------------------- charts
  const charts = [];
  const draw = (id, traces, layout, choice) => {
    const box = element(id);
    if (!traces || !traces.length) {
      box.remove();
      return;
    }
    charts.push([id, traces, layout, choice]);
  };
  const styled = (layout) => {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim();
    const line = style.getPropertyValue("--line").trim();
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
    const whole = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: 13 },
      margin: { l: 50, r: 14, t: 34, b: 84 },
      hoverlabel: { align: "left" },
      legend: { orientation: "h", y: -0.34, yanchor: "top" },
      ...layout,
    };
    whole.xaxis = { ...axis, ...(layout.xaxis || {}) };
    whole.yaxis = { ...axis, ...(layout.yaxis || {}) };
    return whole;
  };
  const still = { displaylogo: false, responsive: true, displayModeBar: false };

  if (data.accuracy.length) {
    const rows = [...data.accuracy].reverse();
    draw("accuracy", [{
      type: "bar", orientation: "h", y: rows.map((row) => plain(row.method)), x: rows.map((row) => row.accuracy),
      marker: { color: rows.map((row) => (row.method === "cge" ? "#2f6fd0" : "#97a5b8")) },
      error_x: { type: "data", symmetric: false, thickness: 1.2,
        array: rows.map((row) => row.interval[1] - row.accuracy), arrayminus: rows.map((row) => row.accuracy - row.interval[0]) },
      hovertemplate: "%{y}: %{x:.1%}<extra></extra>",
    }], { xaxis: { tickformat: ".0%", range: [0, 1] }, margin: { l: 130, r: 14, t: 10, b: 34 }, showlegend: false });
  } else element("accuracy").remove();
  draw("curve", data.curves.map((one) => ({
    type: "scatter", mode: "lines", name: one.name, x: one.x, y: one.y, yaxis: one.share ? "y2" : "y",
  })), { xaxis: { title: { text: data.step } }, yaxis: { title: { text: "loss" } },
    yaxis2: { overlaying: "y", side: "right", tickformat: ".0%", range: [0, 1], automargin: true, showgrid: false } });
  const groups = data.classes.map((_, place) => place).concat([-1]);
  draw("scatter", groups.map((place) => {
    const mine = data.nodes.keys.filter((key) => data.nodes.shown[key] === place);
    return {
      type: "scatter", mode: "markers", name: plain(short(named(place))), x: mine.map((key) => data.nodes.x[key]),
      y: mine.map((key) => data.nodes.y[key]), customdata: mine, marker: { color: color(place), size: 6, opacity: 0.75 },
      text: mine.map((key) => `<b>${plain(short(data.nodes.id[key], 60))}</b><br>label: ${plain(named(data.nodes.label[key]))}` +
        `<br>predicted: ${plain(named(data.nodes.told[key]))} (${percent(data.nodes.sure[key])})`),
      hovertemplate: "%{text}<extra></extra>",
    };
  }).filter((trace) => trace.x.length), { xaxis: { showticklabels: false }, yaxis: { showticklabels: false },
    hovermode: "closest", legend: { orientation: "h", y: -0.03, yanchor: "top" } }, "pick");
  if (data.confusion) {
    draw("confusion", [{
      type: "heatmap", z: data.confusion, x: data.classes.map((one) => plain(short(one, 22))), y: data.classes.map((one) => plain(short(one, 22))),
      colorscale: "Blues", reversescale: true, hovertemplate: "is %{y}<br>predicted %{x}: %{z}<extra></extra>", showscale: false,
      ...(data.classes.length <= 12 ? { texttemplate: "%{z}" } : {}),
    }], { yaxis: { autorange: "reversed", title: { text: "label" } }, xaxis: { title: { text: "predicted" } } });
  } else element("confusions").remove();
  draw("gates", data.gates.length ? [{
    type: "bar", orientation: "h", y: data.gates.map((one) => plain(one[0])), x: data.gates.map((one) => one[1]),
    hovertemplate: "%{y}: %{x:+.2f}<extra></extra>", marker: { color: "#2f6fd0" },
  }] : null, { title: { text: "Which steps are followed (θ)" }, margin: { l: 140, r: 14, t: 40, b: 34 }, showlegend: false });
  draw("hops", data.hops.length ? [{
    type: "bar", x: data.hops.map((_, place) => place), y: data.hops, hovertemplate: "%{x} steps: %{y:.3f}<extra></extra>",
    marker: { color: "#2f6fd0" },
  }] : null, { title: { text: "How far (weight of hops)" }, xaxis: { title: { text: "steps" }, dtick: 1 }, showlegend: false });
  draw("histogram", data.histogram ? [{
    type: "scatter", mode: "lines", line: { shape: "hvh" }, fill: "tozeroy", x: data.histogram.middle, y: data.histogram.count, hovertemplate: "A ≈ %{x:.2f}: %{y} paths<extra></extra>",
  }] : null, { title: { text: "Weights of the strongest paths" }, xaxis: { title: { text: "A, relative to a random walk" }, type: "log" }, showlegend: false });
  draw("lengths", data.lengths.length ? data.lengths.map((one) => ({
    type: "scatter", mode: "lines+markers", name: one.name, x: one.x, y: one.y,
    error_y: { type: "data", array: one.error, thickness: 1 },
  })) : null, { title: { text: "Typical weight by length and diversity" }, xaxis: { title: { text: "steps, or distinct nodes" }, dtick: 1 }, yaxis: { type: "log" } });
  draw("relevance", data.relevance ? [{
    type: "heatmap", z: data.relevance, x: data.classes.map((one) => plain(short(one, 22))), y: data.classes.map((one) => plain(short(one, 22))),
    colorscale: "Viridis", hovertemplate: "contain %{y}, predicted %{x}: %{z:.2f}<extra></extra>",
  }] : null, { yaxis: { autorange: "reversed" } });
  if (data.faithful) {
    draw("deletion", [
      { type: "scatter", mode: "lines+markers", name: "strongest first", x: data.faithful.share, y: data.faithful.strongest },
      { type: "scatter", mode: "lines+markers", name: "random order", x: data.faithful.share, y: data.faithful.random },
    ], { xaxis: { tickformat: ".0%", title: { text: "paths taken away" } }, yaxis: { title: { text: "chance" }, tickformat: ".0%" } });
  } else element("faithful").remove();

  const paint = () => {
    for (const [id, traces, layout, choice] of charts) {
      Plotly.react(id, traces, styled(layout), choice ? { ...still, displayModeBar: "hover", modeBarButtonsToRemove: ["select2d", "lasso2d"] } : still);
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (name) => { document.documentElement.dataset.theme = name; };
  theme(dark.matches ? "dark" : "light");
  paint();
  dark.addEventListener("change", () => { theme(dark.matches ? "dark" : "light"); paint(); });
  element("theme").addEventListener("click", () => {
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    paint();
  });

  // ---------------------------------------------------------------- contents
  for (const section of document.querySelectorAll("main section")) {
    const link = make("a", section.querySelector("h2").textContent);
    link.href = "#" + section.id;
    const item = make("li");
    item.append(link);
    element("toc").append(item);
  }

  // ---------------------------------------------------------------- explorer
  const places = new Map(data.nodes.id.map((id, key) => [id, key]));
  for (const id of data.nodes.id.slice(0, 2000)) {
    const option = make("option");
    option.value = id;
    element("ids").append(option);
  }
  const svg = (tag, given) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
    return made;
  };
  const drawn = (path) => {
    const wide = 150 * path.nodes.length;
    const box = svg("svg", { viewBox: `0 0 ${wide} 56`, role: "img" });
    box.style.maxWidth = wide + "px";
    const title = svg("title", {});
    title.textContent = path.nodes.map((key) => `${data.nodes.id[key]} (${named(data.nodes.told[key])})`).join(" → ");
    box.append(title);
    const style = getComputedStyle(document.documentElement);
    path.nodes.forEach((key, place) => {
      const x = 75 + 150 * place;
      if (place) {
        box.append(svg("line", { x1: x - 139, y1: 16, x2: x - 11, y2: 16, stroke: style.getPropertyValue("--soft").trim(),
          "stroke-width": 1 + 4 * path.strength }));
      }
      box.append(svg("circle", { cx: x, cy: 16, r: 9, fill: color(data.nodes.told[key]),
        stroke: data.nodes.trained[key] ? style.getPropertyValue("--ink").trim() : "none", "stroke-width": 2 }));
      const label = svg("text", { x, y: 46, "text-anchor": "middle", "font-size": 13, fill: style.getPropertyValue("--ink").trim() });
      label.textContent = short(data.nodes.id[key], 19);
      box.append(label);
    });
    return box;
  };
  const show = (key) => {
    const box = element("one");
    box.replaceChildren();
    element("not-found").textContent = "";
    element("node").value = data.nodes.id[key];
    const card = make("div", undefined, "card");
    const head = make("h3", data.nodes.id[key]);
    const told = make("p");
    const dot = make("span", "", "dot");
    dot.style.background = color(data.nodes.told[key]);
    told.append(dot, `predicted ${named(data.nodes.told[key])} with ${percent(data.nodes.sure[key])}; ` +
      (data.nodes.label[key] < 0 ? "its label is not known here." : `its label is ${named(data.nodes.label[key])}.`));
    card.append(head, told);
    const mine = data.paths[key];
    if (mine && mine.length) {
      card.append(make("p", "The routes that bring most to the score of this class. A ring marks a node whose label trained the model.", "hint"));
      const most = Math.max(...mine.map((one) => Math.abs(one[2]))) || 1;
      for (const [nodes, weight, brings] of mine) {
        const row = make("div", undefined, "path");
        const numbers = make("div", undefined, "numbers");
        numbers.append(`weight ${weight.toFixed(2)}, brings ${brings >= 0 ? "+" : "−"}${Math.abs(brings).toFixed(3)}`);
        const bar = make("div", "", brings >= 0 ? "bar" : "bar against");
        bar.style.width = (100 * Math.abs(brings)) / most + "%";
        numbers.append(bar);
        row.append(drawn({ nodes, strength: Math.abs(brings) / most }), numbers);
        card.append(row);
      }
    } else card.append(make("p", "This model does not tell paths of single nodes.", "hint"));
    if (data.near[key] && data.near[key].length) {
      card.append(make("p", "Nearest in the embedding:", "hint"));
      const list = make("ul", undefined, "near");
      for (const other of data.near[key]) {
        const item = make("li");
        const button = make("button", short(data.nodes.id[other], 30));
        button.type = "button";
        button.addEventListener("click", () => show(other));
        item.append(button);
        list.append(item);
      }
      card.append(list);
    }
    box.append(card);
  };
  element("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = element("node").value;
    if (places.has(wanted)) show(places.get(wanted));
    else element("not-found").textContent = "There is no such node on this page.";
  });
  element("random").addEventListener("click", () => show(Math.floor(Math.random() * data.nodes.id.length)));
  const cloud = element("scatter");
  if (cloud && cloud.on) cloud.on("plotly_click", (event) => {
    show(event.points[0].customdata);
    element("explorer").scrollIntoView();
  });
  if (data.nodes.id.length) show(data.first);
  document.documentElement.dataset.ready = "yes";
})();
