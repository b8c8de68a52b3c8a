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
  const digits = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const colors = new Map(data.groups.flatMap((group) => group.classes.map((place) => [place, group.color])));
  const color = (place) => colors.get(place);
  const named = (places) => (places.length ? places.map((place) => data.classes[place]).join("; ") : "unknown");
  const predicted = (key) => {
    const said = data.nodes.said ? data.nodes.said[key] : [[data.nodes.told[key], data.nodes.sure[key]]];
    if (said.length) return said.map(([place, chance]) => `${data.classes[place]} (${percent(chance)})`).join("; ");
    return `nothing; the most likely is ${named([data.nodes.told[key]])} (${percent(data.nodes.sure[key])})`;
  };
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
  // What a chart shows, for those who do not see it.
  const spoken = (text) => text.replace(/<br>/g, ", ").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  const summary = (trace) => {
    if (trace.type === "bar") {
      const [names, values] = trace.orientation === "h" ? [trace.y, trace.x] : [trace.x, trace.y];
      return values.map((value, place) => `${trace.customdata ? trace.customdata[place][0] : names[place]} ${digits(value)}`).join(", ");
    }
    if (trace.type === "heatmap") {
      const most = Math.max(...trace.z.flat().filter((one) => one !== null));
      const row = trace.z.findIndex((one) => one.includes(most));
      return `the strongest color: ${trace.hovertext[row][trace.z[row].indexOf(most)]}`;
    }
    if (trace.mode === "markers") return `${trace.name}: ${trace.x.length} nodes`;
    const last = trace.y.length - 1;
    const [from, to] = [0, last].map((place) => `${digits(trace.y[place])} at ${digits(trace.x[place])}`);
    return `${trace.name ? `${trace.name}: ` : ""}from ${from} to ${to}`;
  };
  const charts = [];
  const narrow = innerWidth < 640; // a phone
  const draw = (id, traces, layout, choice, around = id) => {
    if (!traces || !traces.length) {
      element(around).remove();
      return;
    }
    charts.push([id, traces, layout, choice]);
    const box = element(id);
    const head = layout.title ? layout.title.text : (box.parentElement.querySelector("h2, h3") || box.closest("section").querySelector("h2")).textContent;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", short(`${head}. ${spoken(traces.map(summary).join("; "))}.`, 600));
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
      modebar: { bgcolor: style.getPropertyValue("--paper").trim(), color: style.getPropertyValue("--soft").trim(), activecolor: ink },
      legend: { orientation: "h", y: -0.34, yanchor: "top" },
      ...layout,
    };
    whole.xaxis = { ...axis, ...(layout.xaxis || {}) };
    whole.yaxis = { ...axis, ...(layout.yaxis || {}) };
    // Every tick of powers of ten has all its digits: "0.2", where the library would write "2".
    for (const one of [whole.xaxis, whole.yaxis]) if (one.type === "log") Object.assign(one, { tickformat: ".3~r", nticks: 4 });
    return whole;
  };
  const still = { displaylogo: false, responsive: true, displayModeBar: false };
  // Buttons by name: the library's own list has one that sends a chart away.
  const buttons = { displayModeBar: "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };

  const rows = [...data.accuracy].reverse();
  element("accuracy").style.height = 70 + 34 * rows.length + "px";
  draw("accuracy", rows.length ? [{
      type: "bar", orientation: "h", y: rows.map((row) => plain(row.method)), x: rows.map((row) => row.accuracy),
      marker: { color: rows.map((row) => (row.method === "cge" ? "#2f6fd0" : "#97a5b8")) },
      error_x: { type: "data", symmetric: false, thickness: 1.2,
        array: rows.map((row) => row.interval[1] - row.accuracy), arrayminus: rows.map((row) => row.accuracy - row.interval[0]) },
      hovertemplate: "%{y}: %{x:.1%}<extra></extra>",
    }] : null, { xaxis: { tickformat: ".0%", range: [0, 1], title: { text: data.score } },
    margin: { l: 130, r: 14, t: 10, b: 50 }, showlegend: false });
  const trust = data.reliability;
  draw("reliability", trust ? [
    { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { dash: "dot", color: "#97a5b8" }, name: "as they should be", hoverinfo: "skip" },
    { type: "scatter", mode: "lines+markers", x: trust.confidence, y: trust.accuracy, customdata: trust.count, name: "this model",
      marker: { color: "#2f6fd0", size: trust.count.map((count) => 5 + 15 * Math.sqrt(count / Math.max(...trust.count))) },
      line: { color: "#2f6fd0", width: 1 }, hovertemplate: "given %{x:.0%}, came true %{y:.0%} (%{customdata})<extra></extra>" },
  ] : null, { xaxis: { tickformat: ".0%", range: [0, 1.02], title: { text: "chance given" } },
    yaxis: { tickformat: ".0%", range: [0, 1.05], title: { text: "came true" } } }, null, "calibration");
  draw("curve", data.curves.map((one) => ({
    type: "scatter", mode: "lines", name: one.name, x: one.x, y: one.y, yaxis: one.share ? "y2" : "y",
  })), { xaxis: { title: { text: data.step } }, yaxis: { title: { text: "loss" } },
    yaxis2: { overlaying: "y", side: "right", tickmode: "linear", dtick: 0.2, tickformat: ".0%", range: [0, 1], automargin: true, showgrid: false } });
  const crowded = data.nodes.keys.length > 1000;
  draw("scatter", [...data.groups].reverse().map((group, place) => {
    const mine = data.nodes.keys.filter((key) => group.classes.includes(data.nodes.shade[key]));
    const others = group.classes.length;
    return {
      type: "scatter", mode: "markers", name: others > 1 ? `${others} other classes` : plain(short(named(group.classes))),
      x: mine.map((key) => data.nodes.x[key]), y: mine.map((key) => data.nodes.y[key]), customdata: mine,
      marker: { color: group.color, size: crowded ? 4 : 6, opacity: 0.7 }, legendrank: 1000 - place,
      text: mine.map((key) => `<b>${plain(short(data.nodes.id[key], 60))}</b><br>label: ${plain(named(data.nodes.label[key]))}` +
        `<br>predicted: ${plain(predicted(key))}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  }).filter((trace) => trace.x.length), { xaxis: { showticklabels: false, zeroline: false }, yaxis: { showticklabels: false, zeroline: false },
    margin: { l: 8, r: 8, t: 30, b: 8 }, hovermode: "closest", legend: { orientation: "h", y: -0.02, yanchor: "top", itemsizing: "constant", maxheight: 400 } }, "pick");
  if (narrow) element("scatter").style.height = 340 + 21 * data.groups.length + "px"; // each class has a line below
  // A heat map of classes by classes, with room for every name; places are numbers, for names may be alike when cut.
  const many = data.classes.length;
  const ticks = { tickvals: data.classes.map((_, place) => place), ticktext: data.classes.map((one) => plain(short(one, narrow ? 12 : 22))),
    tickfont: { size: many > 20 ? (narrow ? 8 : 9) : 12 }, showgrid: false, zeroline: false };
  const grid = (id, around, values, counts, scale, [down, along]) => {
    if (values) element(id).style.height = Math.max(440, 190 + 13 * many) + "px";
    const hovertext = values && values.map((row, i) => row.map((one, j) =>
      `${along} ${plain(data.classes[i])}<br>${down} ${plain(data.classes[j])}: ${counts ? counts[i][j] : (one === null ? "none" : one.toFixed(2))}`));
    draw(id, values ? [{
      type: "heatmap", z: values, hovertext, colorscale: scale, hovertemplate: "%{hovertext}<extra></extra>", hoverongaps: false,
      xgap: many > 20 ? 0 : 1, ygap: many > 20 ? 0 : 1, showscale: !counts,
      colorbar: narrow ? { orientation: "h", y: 1, yanchor: "bottom", thickness: 10 } : { thickness: 12 },
      ...(counts && many <= 12 ? { text: counts, texttemplate: "%{text}" } : {}),
    }] : null, { xaxis: { ...ticks, tickangle: narrow ? -90 : -45, title: { text: down, standoff: narrow ? 22 : 14 }, showticklabels: many <= 40 || !narrow }, yaxis: { ...ticks, autorange: "reversed", title: { text: along, standoff: 14 } } },
    null, around);
  };
  const shares = data.confusion && data.confusion.map((row) => {
    const sum = row.reduce((one, other) => one + other, 0) || 1;
    return row.map((one) => one / sum);
  });
  grid("confusion", "confusions", shares, data.confusion, [[0, "rgba(91,147,230,0.04)"], [1, "rgba(91,147,230,0.9)"]], ["predicted", "label"]);
  const byClass = data.by_class && data.classes.map((name, place) => ({ name, ...data.by_class[place] })).reverse();
  if (byClass) element("by-class").style.height = Math.max(300, 90 + 18 * many) + "px";
  draw("by-class", byClass ? [{
    type: "bar", orientation: "h", x: byClass.map((one) => one.f1), y: byClass.map((_, place) => place), marker: { color: "#2f6fd0" },
    customdata: byClass.map((one) => [plain(one.name), one.precision, one.recall, one.nodes]),
    hovertemplate: "%{customdata[0]}: F1 %{x:.2f}, precision %{customdata[1]:.2f}, recall %{customdata[2]:.2f}, %{customdata[3]} nodes<extra></extra>",
  }] : null, { xaxis: { range: [0, 1], title: { text: "F1" } }, showlegend: false,
    yaxis: { ...ticks, ticktext: byClass && byClass.map((one) => plain(short(one.name, 22))) } }, null, "by-classes");
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
  }] : null, { title: { text: "Weights of the strongest paths" }, xaxis: { title: { text: data.weight_axis }, type: "log" }, showlegend: false });
  draw("lengths", data.lengths.length ? data.lengths.map((one) => ({
    type: "scatter", mode: "lines+markers", name: one.name, x: one.x, y: one.y,
    error_y: { type: "data", array: one.error, thickness: 1 },
  })) : null, { title: { text: "Typical weight by length and diversity" }, xaxis: { title: { text: "steps, or distinct nodes" }, dtick: 1 }, yaxis: { type: "log" } });
  grid("relevance", "relevances", data.relevance, null, "Viridis", ["predicted", "on the path"]);
  const chances = ["deletion", "insertion"].flatMap((way) => data.faithful[way].flatMap((one) => one.chance));
  const [lowest, highest] = [Math.min(...chances), Math.max(...chances)];
  const beyond = 0.06 * (highest - lowest) + 0.002; // both charts have the same axis
  for (const [way, title] of [["deletion", "paths taken away"], ["insertion", "paths given back"]]) {
    draw(way, data.faithful[way].map((one) => ({
      type: "scatter", mode: "lines+markers", name: one.name, x: data.faithful.share, y: one.chance,
      hovertemplate: "%{x:.0%} of the paths: chance %{y:.0%}",
    })), { xaxis: { tickformat: ".0%", title: { text: title } },
      yaxis: { title: { text: "chance" }, tickformat: ".1~%", range: [lowest - beyond, highest + beyond] } });
  }

  const paint = () => {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    for (const [id, traces, layout, choice] of charts) {
      for (const trace of traces) {
        if (trace.texttemplate) trace.textfont = { color: ink };
        for (const error of [trace.error_x, trace.error_y]) if (error) error.color = ink;
      }
      Plotly.react(id, traces, styled(layout), choice ? { ...still, ...buttons } : still);
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (name) => { document.documentElement.dataset.theme = name; };
  theme(dark.matches ? "dark" : "light");
  paint();
  // Paper is light: what was there before a print comes back after it.
  let before = null;
  const printing = (begins) => {
    if (begins === (before !== null)) return;
    if (begins) before = document.documentElement.dataset.theme;
    theme(begins ? "light" : before);
    if (!begins) before = null;
    paint();
  };
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  const paper = matchMedia("print");
  paper.addEventListener("change", () => printing(paper.matches));
  dark.addEventListener("change", () => {
    const name = dark.matches ? "dark" : "light";
    if (before !== null) before = name;
    else { theme(name); paint(); }
  });
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
  const places = new Map(data.nodes.keys.map((key) => [data.nodes.id[key], key]));
  const offered = Math.min(2000, data.nodes.keys.length);
  if (offered < data.nodes.keys.length) {
    element("offered").textContent = `${offered.toLocaleString("en")} ids are offered while you type; the others are found as well.`;
  }
  for (const id of data.nodes.id.slice(0, offered)) {
    const option = make("option");
    option.value = id;
    element("ids").append(option);
  }
  const svg = (tag, given) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
    return made;
  };
  const drawn = (nodes) => {
    const each = narrow ? 92 : 150; // there is less room, and letters must be as large
    const wide = each * nodes.length;
    const box = svg("svg", { viewBox: `0 0 ${wide} 56`, role: "img" });
    box.style.maxWidth = wide + "px";
    const title = svg("title", {});
    title.textContent = nodes.map((key) => `${data.nodes.id[key]} (${named([data.nodes.shade[key]])})`).join(" → ");
    box.append(title);
    nodes.forEach((key, place) => {
      const x = each * (place + 0.5);
      if (place) {
        box.append(svg("line", { x1: x - each + 11, y1: 16, x2: x - 11, y2: 16, stroke: "var(--soft)", "stroke-width": 2 }));
      }
      box.append(svg("circle", { cx: x, cy: 16, r: 9, fill: color(data.nodes.shade[key]),
        stroke: data.nodes.trained[key] ? "var(--ink)" : "none", "stroke-width": 2 }));
      const label = svg("text", { x, y: 46, "text-anchor": "middle", "font-size": 13, fill: "var(--ink)" });
      label.textContent = short(data.nodes.id[key], each < 150 ? 11 : 19);
      box.append(label);
    });
    return box;
  };
  const way = (key) => {
    const item = make("li");
    const button = make("button", short(data.nodes.id[key], 30));
    button.type = "button";
    button.addEventListener("click", () => show(key));
    item.append(button);
    return item;
  };
  const alike = (wanted) => {
    for (let begin = wanted.toLowerCase(); begin; begin = begin.slice(0, -1)) {
      const found = data.nodes.keys.filter((key) => data.nodes.id[key].toLowerCase().startsWith(begin));
      if (found.length) return found.slice(0, 5);
    }
    return [];
  };
  const miss = (wanted) => {
    const words = make("p", "There is no such node on this page.");
    const list = make("ul", undefined, "near");
    list.append(...alike(wanted.slice(0, 100)).map(way));
    if (list.childElementCount) words.append(" These ids begin alike:");
    element("one").replaceChildren();
    element("not-found").replaceChildren(words, list);
  };
  const show = (key) => {
    const box = element("one");
    box.replaceChildren();
    element("not-found").replaceChildren();
    element("node").value = data.nodes.id[key];
    const card = make("div", undefined, "card");
    const head = make("h3", short(data.nodes.id[key], 120));
    if (head.textContent !== data.nodes.id[key]) head.title = data.nodes.id[key];
    const told = make("p", `Predicted: ${predicted(key)}. Label: ${data.nodes.label[key].length ? named(data.nodes.label[key]) : "not known here"}.`);
    card.append(head, told);
    if (data.nodes.says && data.nodes.says[key] !== data.nodes.told[key])
      card.append(make("p", `The explained reader by itself says ${named([data.nodes.says[key]])}; chances are averaged over all readers.`, "hint"));
    const mine = data.paths[key];
    const legend = make("ul", undefined, "classes");
    for (const place of new Set([key, ...mine.flatMap((one) => one[0])].map((one) => data.nodes.shade[one]))) {
      const item = make("li");
      const dot = make("span", "", "dot");
      dot.style.background = color(place);
      item.append(dot, data.classes[place]);
      legend.append(item);
    }
    card.append(legend);
    if (mine.length) {
      const most = Math.max(...mine.map((one) => Math.abs(one[2]))) || 1;
      for (const [nodes, weight, brings] of mine) {
        const row = make("div", undefined, "path");
        const numbers = make("div", undefined, "numbers");
        numbers.append(`weight ${digits(weight)}, brings ${brings >= 0 ? "+" : ""}${digits(brings)}`);
        const bar = make("div", "", brings >= 0 ? "bar" : "bar against");
        bar.style.width = (100 * Math.abs(brings)) / most + "%";
        numbers.append(bar);
        row.append(drawn(nodes), numbers);
        card.append(row);
      }
    } else card.append(make("p", "No path brings anything to this node.", "hint"));
    if (data.near[key] && data.near[key].length) {
      card.append(make("p", "Nearest in the embedding:", "hint"));
      const list = make("ul", undefined, "near");
      for (const other of data.near[key]) list.append(way(other));
      card.append(list);
    }
    box.append(card);
  };
  element("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = element("node").value;
    const wanted = places.has(given) ? given : given.trim();
    if (places.has(wanted)) show(places.get(wanted));
    else miss(wanted);
  });
  element("random").addEventListener("click", () => show(Math.floor(Math.random() * data.nodes.keys.length)));
  const cloud = element("scatter");
  if (cloud && cloud.on) cloud.on("plotly_click", (event) => {
    show(event.points[0].customdata);
    element("explorer").scrollIntoView();
  });
  if (data.nodes.keys.length) show(data.first);
  document.documentElement.dataset.ready = "yes";
})();
