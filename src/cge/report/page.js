"use strict";
(async () => {
  const element = (id) => document.getElementById(id);
  const make = (tag, text, kind) => {
    const created = document.createElement(tag);
    if (text !== undefined) created.textContent = text;
    if (kind) created.className = kind;
    return created;
  };
  const unpack = async (id) => {
    const bytes = Uint8Array.from(atob(element(id).textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  if (typeof DecompressionStream === "undefined") {
    element("summary-text").append(make("p", "This browser is too old for this page; use a version from 2023 or later."));
    return;
  }
  const data = JSON.parse(await unpack("data"));

  const short = (text, most = 28) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const digits = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
  const middle = (text, most) => { // ids often differ at their ends
    const head = Math.ceil((most - 1) / 2);
    return text.length > most ? `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}` : text;
  };
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const [axisFormat, scoreFormat] = data.has_probabilities ? [".0%", ".1%"] : [".2f", ".3f"]; // formats of scores and outputs
  const unbroken = (text) => text.replace(/(\d) %/g, "$1\u00a0%");
  const colors = new Map(data.groups.flatMap((group) => group.classes.map((classIndex) => [classIndex, group.color])));
  const color = (classIndex) => colors.get(classIndex);
  const named = (indices) => (indices.length ? indices.map((classIndex) => data.classes[classIndex]).join("; ") : "unknown");
  const labelText = (key) => (data.nodes.label_text ? data.nodes.label_text[key] || "unknown" : named(data.nodes.label[key]));
  const predicted = (key) => {
    if (data.nodes.predicted_text) return data.nodes.predicted_text[key];
    const most = [data.nodes.predicted[key], data.nodes.confidence[key]];
    const classes = data.nodes.predicted_all ? data.nodes.predicted_all[key] : [most];
    const text = (pairs) => pairs.map(([classIndex, probability]) => `${data.classes[classIndex]} (${percent(probability)})`).join("; ");
    return classes.length ? text(classes) : `no class; the most probable is ${text([most])}`;
  };
  // Plotly interprets some tags in texts, so they are escaped.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // ---------------------------------------------------------------- texts
  document.title = data.title;
  element("title").textContent = data.title;
  for (const line of data.summary) element("summary-text").append(make("p", unbroken(line)));
  for (const line of data.weighting) element("weighting-text").append(make("p", unbroken(line)));
  for (const [id, text] of Object.entries(data.captions)) if (element(id)) element(id).textContent = unbroken(text);
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
  // Descriptions of charts for screen readers.
  const spoken = (text) => text.replace(/<br>/g, ", ").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  const summary = (trace) => {
    if (trace.type === "bar") {
      const [names, values] = trace.orientation === "h" ? [trace.y, trace.x] : [trace.x, trace.y];
      return values.map((value, index) => `${trace.customdata ? trace.customdata[index][0] : names[index]} ${digits(value)}`).join(", ");
    }
    if (trace.type === "heatmap") {
      const most = Math.max(...trace.z.flat().filter((value) => value !== null));
      const row = trace.z.findIndex((values) => values.includes(most));
      return `the largest value: ${trace.hovertext[row][trace.z[row].indexOf(most)]}`;
    }
    if (trace.mode === "markers") return `${trace.name}: ${trace.x.length} nodes`;
    const last = trace.y.length - 1;
    const [from, to] = [0, last].map((index) => `${digits(trace.y[index])} at ${digits(trace.x[index])}`);
    return `${trace.name ? `${trace.name}: ` : ""}from ${from} to ${to}`;
  };
  const charts = [];
  const narrow = innerWidth < 640; // a phone
  const draw = (id, traces, layout, choice, around = id) => {
    if (!traces || !traces.length) {
      element(around).remove();
      return;
    }
    const box = element(id);
    const title = layout.title && layout.title.text;
    if (title) { // above the chart, where it wraps
      const figure = make("div", undefined, "figure");
      box.replaceWith(figure);
      figure.append(make("h4", title), box);
      delete layout.title;
    }
    charts.push([id, traces, layout, choice]);
    const head = title || (box.parentElement.querySelector("h2, h3") || box.closest("section").querySelector("h2")).textContent;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", short(`${head}. ${spoken(traces.map(summary).join("; "))}.`, 600));
  };
  // 0.1, 0.2, 0.5, 1, …, where at least two of them are within the values.
  const logTicks = (values) => {
    const all = [-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
    const inside = all.filter((tick) => tick >= Math.min(...values) && tick <= Math.max(...values));
    return inside.length > 1 && inside.length < 12 ? { tickmode: "array", tickvals: all, ticktext: all.map(String) } : {};
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
      legend: { orientation: "h", y: narrow ? -0.42 : -0.34, yanchor: "top" },
      ...layout,
    };
    whole.xaxis = { ...axis, ...(layout.xaxis || {}) };
    whole.yaxis = { ...axis, ...(layout.yaxis || {}) };
    // Ticks of logarithmic axes have all digits: "0.2", where the library would write "2".
    for (const each of [whole.xaxis, whole.yaxis]) if (each.type === "log") Object.assign(each, { tickformat: ".3~r", nticks: 4, ...logTicks(each.values) });
    return whole;
  };
  const still = { displaylogo: false, responsive: true, displayModeBar: false };
  // Buttons by name: the library's default list has one that uploads a chart.
  const buttons = { displayModeBar: "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };

  const rows = [...data.accuracy].reverse();
  const scoreRange = data.has_probabilities ? { range: [0, 1] } : {}; // R² may be negative
  element("accuracy").style.height = 70 + 34 * rows.length + "px";
  draw("accuracy", rows.length ? [{
      type: "bar", orientation: "h", y: rows.map((row) => plain(row.method)), x: rows.map((row) => row.accuracy),
      marker: { color: rows.map((row) => (row.method === "cge" ? "#2f6fd0" : "#97a5b8")) },
      error_x: { type: "data", symmetric: false, thickness: 1.2,
        array: rows.map((row) => row.interval[1] - row.accuracy), arrayminus: rows.map((row) => row.accuracy - row.interval[0]) },
      hovertemplate: `%{y}: %{x:${scoreFormat}}<extra></extra>`,
    }] : null, { xaxis: { tickformat: axisFormat, ...scoreRange, dtick: narrow ? 0.5 : 0.2, title: { text: narrow ? data.metric : `${data.metric} (with 95 % confidence interval)` } },
    margin: { l: narrow ? 100 : 150, r: 24, t: 10, b: 50 }, showlegend: false });
  const diagram = data.reliability;
  draw("reliability", diagram ? [
    { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { dash: "dot", color: "#97a5b8" }, name: "perfect calibration", hoverinfo: "skip" },
    { type: "scatter", mode: "lines+markers", x: diagram.confidence, y: diagram.accuracy, customdata: diagram.count, name: "this model",
      marker: { color: "#2f6fd0", size: diagram.count.map((count) => 5 + 15 * Math.sqrt(count / Math.max(...diagram.count))) },
      line: { color: "#2f6fd0", width: 1 }, hovertemplate: `${data.reliability_axes[0]} %{x:.0%}, ${data.reliability_axes[1]} %{y:.0%} (%{customdata} predictions)<extra></extra>` },
  ] : null, { xaxis: { tickformat: ".0%", range: [0, 1.02], title: { text: data.reliability_axes[0] } },
    yaxis: { tickformat: ".0%", range: [0, 1.05], title: { text: data.reliability_axes[1] } } }, null, "calibration");
  draw("curve", data.curves.map((curve) => ({
    type: "scatter", mode: "lines", name: curve.name, x: curve.x, y: curve.y, yaxis: curve.is_accuracy ? "y2" : "y",
  })), { xaxis: { title: { text: "epoch" } }, yaxis: { title: { text: "loss" } },
    shapes: [{ type: "line", x0: data.best_epoch, x1: data.best_epoch, yref: "paper", y0: 0, y1: 1, line: { dash: "dot", width: 1.5, color: "#97a5b8" } }],
    yaxis2: { title: { text: data.curves.filter((curve) => curve.is_accuracy).map((curve) => curve.name).join() }, overlaying: "y", side: "right", tickmode: data.has_probabilities ? "linear" : "auto", dtick: 0.2, tickformat: axisFormat, ...scoreRange, automargin: true, showgrid: false } });
  const crowded = data.nodes.keys.length > 1000;
  draw("scatter", [...data.groups].reverse().map((group, index) => {
    const keys = data.nodes.keys.filter((key) => group.classes.includes(data.nodes.color_class[key]));
    const others = group.classes.length;
    return {
      type: "scatter", mode: "markers", name: others > 1 ? `${others} other classes` : plain(short(named(group.classes))),
      x: keys.map((key) => data.nodes.x[key]), y: keys.map((key) => data.nodes.y[key]), customdata: keys,
      marker: { color: group.color, size: crowded ? 4 : 6, opacity: 0.7 }, legendrank: 1000 - index,
      text: keys.map((key) => `<b>${plain(short(data.nodes.id[key], 60))}</b><br>label: ${plain(labelText(key))}` +
        `<br>predicted: ${plain(predicted(key))}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  }).filter((trace) => trace.x.length), { xaxis: { showticklabels: false, zeroline: false }, yaxis: { showticklabels: false, zeroline: false },
    margin: { l: 8, r: 8, t: 30, b: 8 }, hovermode: "closest", legend: { orientation: "h", y: -0.02, yanchor: "top", itemsizing: "constant", maxheight: 400 } }, "pick");
  if (narrow) element("scatter").style.height = 340 + 21 * data.groups.length + "px"; // each class has a line below
  // A heatmap of classes by classes; axes are numbers, because shortened names may be equal.
  const many = data.classes.length;
  const ticks = { tickvals: data.classes.map((_, index) => index), ticktext: data.classes.map((name) => plain(short(name, narrow ? 12 : 22))),
    tickfont: { size: many > 20 ? (narrow ? 8 : 9) : 12 }, showgrid: false, zeroline: false };
  const grid = (id, around, values, counts, scale, [xTitle, yTitle]) => {
    if (values) element(id).style.height = Math.max(440, 190 + 13 * many) + "px";
    const hovertext = values && values.map((row, i) => row.map((value, j) =>
      `${yTitle} ${plain(data.classes[i])}<br>${xTitle} ${plain(data.classes[j])}: ${counts ? counts[i][j] : (value === null ? "none" : value.toFixed(2))}`));
    draw(id, values ? [{
      type: "heatmap", z: values, hovertext, colorscale: scale, hovertemplate: "%{hovertext}<extra></extra>", hoverongaps: false,
      xgap: many > 20 ? 0 : 1, ygap: many > 20 ? 0 : 1, showscale: !counts,
      colorbar: narrow ? { orientation: "h", y: 1, yanchor: "bottom", thickness: 10 } : { thickness: 12 },
      ...(counts && many <= 20 ? { text: counts.map((row) => row.map((count) => count || "")), texttemplate: "%{text}" } : {}),
    }] : null, { xaxis: { ...ticks, tickangle: narrow ? -90 : -45, title: { text: xTitle, standoff: narrow ? 22 : 14 }, showticklabels: many <= 40 || !narrow }, yaxis: { ...ticks, autorange: "reversed", title: { text: yTitle, standoff: 14 } } },
    null, around);
  };
  const normalized = data.confusion && data.confusion.map((row) => {
    const sum = row.reduce((total, count) => total + count, 0) || 1;
    return row.map((count) => count / sum);
  });
  grid("confusion", "confusion-section", normalized, data.confusion, [[0, "rgba(91,147,230,0.04)"], [1, "rgba(91,147,230,0.9)"]], ["predicted class", "true class"]);
  const byClass = data.by_class && data.classes.map((name, index) => ({ name, ...data.by_class[index] })).reverse();
  if (byClass) element("by-class").style.height = Math.max(300, 110 + 40 * many) + "px";
  draw("by-class", byClass ? [["recall", "#97a5b8"], ["precision", "#2f6fd0"]].map(([name, color]) => ({
    type: "bar", orientation: "h", name, x: byClass.map((row) => row[name]), y: byClass.map((_, index) => index), marker: { color },
    ...(many <= 20 ? { text: byClass.map((row) => row[name].toFixed(2)), textposition: "auto" } : {}),
    customdata: byClass.map((row) => [plain(row.name), row.precision, row.recall, row.f1, row.nodes]),
    hovertemplate: "%{customdata[0]}: precision %{customdata[1]:.2f}, recall %{customdata[2]:.2f}, F1 %{customdata[3]:.2f}, %{customdata[4]} nodes<extra></extra>",
  })) : null, { xaxis: { range: [0, 1] }, legend: { orientation: "h", y: -70 / Math.max(300, 110 + 40 * many), yanchor: "top", traceorder: "reversed" },
    yaxis: { ...ticks, ticktext: byClass && byClass.map((row) => plain(short(row.name, 22))) } }, null, "by-class-section");
  draw("edge-coefficients", data.edge_coefficients.length ? [{
    type: "bar", orientation: "h", y: data.edge_coefficients.map((pair) => plain(pair[0])), x: data.edge_coefficients.map((pair) => pair[1]),
    hovertemplate: "%{y}: %{x:+.2f}<extra></extra>", marker: { color: "#2f6fd0" },
  }] : null, { title: { text: "Coefficients θ of the edge inputs" }, margin: { l: 140, r: 14, t: 40, b: 34 }, showlegend: false });
  draw("hop-weights", data.hop_weights.length ? [{
    type: "bar", x: data.hop_weights.map((_, hops) => hops), y: data.hop_weights, hovertemplate: "%{x} hops: %{y:.3f}<extra></extra>",
    marker: { color: "#2f6fd0" },
  }] : null, { title: { text: "Hop weights" }, xaxis: { title: { text: "hops" }, dtick: 1 }, yaxis: { title: { text: "hop weight" } }, showlegend: false });
  const metapaths = [...data.metapaths].reverse(); // the library draws bars from the bottom
  const without = (row) => (row.accuracy_change === null ? "" : `<br>change in validation accuracy without it: ${(100 * row.accuracy_change).toFixed(1)} percentage points`);
  draw("metapaths", metapaths.length ? [["uniform weights", "uniform_weight", "#97a5b8"], ["this model", "weight", "#2f6fd0"]].map(([name, key, color]) => ({
    type: "bar", orientation: "h", name, y: metapaths.map((row) => plain(row.metapath)), x: metapaths.map((row) => row[key]), marker: { color },
    text: metapaths.map((row) => `share of contributions ${(100 * row.contribution).toFixed(1)} %${without(row)}`), textposition: "none",
    hovertemplate: "%{y}: %{x:.1%}<br>%{text}<extra></extra>",
  })) : null, { title: { text: "Share of total path weight: metapaths with the largest contributions" }, xaxis: { tickformat: ".0%" }, margin: { l: narrow ? 140 : 260, r: 14, t: 40, b: 84 } });
  draw("histogram", data.histogram ? [{
    type: "scatter", mode: "lines", line: { shape: "hvh" }, fill: "tozeroy", x: data.histogram.center, y: data.histogram.count, hovertemplate: "weight ≈ %{x:.2f}: %{y} paths<extra></extra>",
  }] : null, { title: { text: "Weights of the paths with the largest contributions" }, xaxis: { title: { text: data.weight_axis }, type: "log", values: data.histogram && data.histogram.center }, yaxis: { title: { text: "number of paths" } }, showlegend: false });
  draw("by-length", data.by_length.length ? data.by_length.map((curve) => ({
    type: "scatter", mode: "lines+markers", name: curve.name, x: curve.x, y: curve.y,
    error_y: { type: "data", array: curve.error, thickness: 1 },
  })) : null, { title: { text: `${data.weight_name[0].toUpperCase()}${data.weight_name.slice(1)} by number of hops and of distinct nodes (± standard error)` }, xaxis: { title: { text: "number of hops, or of distinct nodes" }, dtick: 1 }, yaxis: { title: { text: "geometric mean" }, type: "log", values: data.by_length.flatMap((curve) => curve.y) } });
  grid("weight-by-class", "weight-by-class-section", data.weight_by_class, null, "Viridis", [`predicted ${data.target.noun}`, "label on the path"]);
  const probabilities = ["deletion", "insertion"].flatMap((change) => data.faithfulness[change].flatMap((curve) => curve.probability));
  const [lowest, highest] = [Math.min(...probabilities), Math.max(...probabilities)];
  const margin = 0.06 * (highest - lowest) + 0.002; // both charts have the same axis
  for (const [change, title] of [["deletion", "fraction of these paths deleted"], ["insertion", "fraction of these paths inserted"]]) {
    draw(change, data.faithfulness[change].map((curve) => ({
      type: "scatter", mode: "lines+markers", name: curve.name, x: data.faithfulness.fractions, y: curve.probability,
      hovertemplate: `%{x:.0%} of the paths: ${data.target.output} %{y:${data.has_probabilities ? ".0%" : ".4g"}}`,
    })), { xaxis: { tickformat: ".0%", title: { text: title } },
      yaxis: { title: { text: data.target.output }, tickformat: data.has_probabilities ? ".1~%" : ".4~g", range: [lowest - margin, highest + margin] } });
  }

  const paintChart = ([id, traces, layout, choice]) => {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    for (const trace of traces) {
      if (trace.texttemplate) trace.textfont = { color: ink };
      for (const error of [trace.error_x, trace.error_y]) if (error) error.color = ink;
    }
    window.Plotly.react(id, traces, styled(layout), choice ? { ...still, ...buttons } : still);
  };
  const paint = () => { if (window.Plotly) charts.forEach(paintChart); };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (name) => { document.documentElement.dataset.theme = name; };
  theme(dark.matches ? "dark" : "light");
  // Pages are printed in light colors.
  let before = null;
  const printing = (starts) => {
    if (starts === (before !== null)) return;
    if (starts) before = document.documentElement.dataset.theme;
    theme(starts ? "light" : before);
    if (!starts) before = null;
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
  const keyOf = new Map(data.nodes.keys.map((key) => [data.nodes.id[key], key]));
  const suggested = Math.min(2000, data.nodes.keys.length);
  if (suggested < data.nodes.keys.length) {
    element("suggestions").textContent = `${suggested.toLocaleString("en")} ids are suggested while you type; the others can be entered as well.`;
  }
  for (const id of data.nodes.id.slice(0, suggested)) {
    const option = make("option");
    option.value = id;
    element("ids").append(option);
  }
  const svg = (tag, attributes) => {
    const created = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
    return created;
  };
  const drawPath = (nodes) => {
    const [least, most, whole] = narrow ? [92, 160, 320] : [150, 260, 600]; // pixels of a node, and of the drawing
    const step = Math.max(least, Math.min(most, whole / nodes.length)); // letters have the same size
    const width = step * nodes.length;
    const box = svg("svg", { viewBox: `0 0 ${width} 56`, role: "img" });
    box.style.maxWidth = width + "px";
    const title = svg("title", {});
    title.textContent = nodes.map((key) => `${data.nodes.id[key]} (${named([data.nodes.color_class[key]])})`).join(" → ");
    box.append(title);
    nodes.forEach((key, index) => {
      const x = step * (index + 0.5);
      if (index) {
        box.append(svg("line", { x1: x - step + 11, y1: 16, x2: x - 11, y2: 16, stroke: "var(--soft)", "stroke-width": 2 }));
      }
      box.append(svg("circle", { cx: x, cy: 16, r: 9, fill: color(data.nodes.color_class[key]),
        stroke: data.nodes.is_training[key] ? "var(--ink)" : "none", "stroke-width": 2 }));
      const label = svg("text", { x, y: 46, "text-anchor": "middle", "font-size": 13, fill: "var(--ink)" });
      label.textContent = middle(data.nodes.id[key], Math.floor(step / 8));
      box.append(label);
    });
    return box;
  };
  const nodeButton = (key) => {
    const item = make("li");
    const button = make("button", short(data.nodes.id[key], 30));
    button.type = "button";
    button.addEventListener("click", () => show(key));
    item.append(button);
    return item;
  };
  const similarIds = (wanted) => {
    for (let prefix = wanted.toLowerCase(); prefix; prefix = prefix.slice(0, -1)) {
      const keys = data.nodes.keys.filter((key) => data.nodes.id[key].toLowerCase().startsWith(prefix));
      if (keys.length) return keys.slice(0, 5);
    }
    return [];
  };
  const showMissing = (wanted) => {
    const message = make("p", "This node is not on this page.");
    const list = make("ul", undefined, "near");
    list.append(...similarIds(wanted.slice(0, 100)).map(nodeButton));
    if (list.childElementCount) message.append(" Similar ids:");
    element("node-card").replaceChildren();
    element("not-found").replaceChildren(message, list);
  };
  const inputsKind = data.paths.flat().map((path) => path[3]).find((kind) => kind !== "label") || "inputs";
  const show = (key) => {
    const box = element("node-card");
    box.replaceChildren();
    element("not-found").replaceChildren();
    element("node").value = data.nodes.id[key];
    const card = make("div", undefined, "card");
    const head = make("h3", short(data.nodes.id[key], 120));
    if (head.textContent !== data.nodes.id[key]) head.title = data.nodes.id[key];
    card.append(head, make("p", `Predicted: ${predicted(key)}. Label: ${labelText(key)}.`));
    const alone = data.nodes.classifier_prediction;
    if (alone && alone[key] !== data.nodes.predicted[key])
      card.append(make("p", `The explained classifier by itself predicts ${named([alone[key]])}; probabilities are averaged over all classifiers.`, "caption"));
    const paths = data.paths[key];
    const endpoints = data.endpoints[key];
    const legend = make("ul", undefined, "classes");
    for (const classIndex of new Set([key, ...paths.flatMap((path) => path[0]), ...endpoints.map((row) => row[0])].map((node) => data.nodes.color_class[node]))) {
      const item = make("li");
      const dot = make("span", "", "dot");
      dot.style.background = color(classIndex);
      item.append(dot, data.classes[classIndex]);
      legend.append(item);
    }
    card.append(legend);
    const signed = (value) => `${value >= 0 ? "+" : ""}${digits(value)}`;
    const numbersRow = (drawing, text, contribution, largest) => {
      const row = make("div", undefined, "path");
      const numbers = make("div", text, "numbers");
      const bar = make("div", "", contribution >= 0 ? "bar" : "bar negative");
      bar.style.width = (100 * Math.abs(contribution)) / (largest || 1) + "%";
      numbers.append(bar);
      row.append(drawing, numbers);
      return row;
    };
    if (endpoints.length) {
      card.append(make("h4", "Endpoints of paths"));
      const largest = Math.max(...endpoints.map(([, inputs, label]) => Math.abs(inputs + label)));
      for (const [endpoint, inputs, label] of endpoints) {
        const parts = [inputs ? `${inputsKind} ${signed(inputs)}` : "", label ? `label ${signed(label)}` : ""].filter(Boolean);
        const text = `contribution ${signed(inputs + label)}` + (parts.length > 1 || label ? ` (${parts.join(", ")})` : "");
        const name = make("span", short(data.nodes.id[endpoint], 40), "end");
        const dot = make("span", "", "dot");
        dot.style.background = color(data.nodes.color_class[endpoint]);
        name.prepend(dot);
        if (data.nodes.is_training[endpoint]) name.append(make("span", ` training label: ${labelText(endpoint)}`, "caption"));
        card.append(numbersRow(name, text, inputs + label, largest));
      }
    }
    if (paths.length) {
      card.append(make("h4", "Paths"));
      const largest = Math.max(...paths.map((path) => Math.abs(path[2])));
      for (const [nodes, weight, contribution, kind] of paths) {
        const text = `ends at ${kind}, ${data.weight_name} ${digits(weight)}, contribution ${signed(contribution)}`;
        card.append(numbersRow(drawPath(nodes), text, contribution, largest));
      }
    } else card.append(make("p", "No path contributes to the prediction of this node.", "caption"));
    if (data.notes[key]) card.append(make("p", data.notes[key], "caption"));
    if (data.neighbors[key] && data.neighbors[key].length) {
      card.append(make("p", "Nodes with the most similar vectors:", "caption"));
      const list = make("ul", undefined, "near");
      for (const other of data.neighbors[key]) list.append(nodeButton(other));
      card.append(list);
    }
    box.append(card);
  };
  element("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = element("node").value;
    const wanted = keyOf.has(text) ? text : text.trim();
    if (keyOf.has(wanted)) show(keyOf.get(wanted));
    else showMissing(wanted);
  });
  element("random").addEventListener("click", () => show(Math.floor(Math.random() * data.nodes.keys.length)));
  if (data.nodes.keys.length) show(data.first_node);
  // Texts are on the screen before the charts, which appear one after the other.
  const pause = () => new Promise((resume) => { setTimeout(resume); });
  await pause();
  const library = document.createElement("script");
  library.textContent = await unpack("library");
  document.head.append(library);
  for (const chart of charts) {
    paintChart(chart);
    await pause();
  }
  const scatter = element("scatter");
  if (scatter && scatter.on) scatter.on("plotly_click", (event) => {
    show(event.points[0].customdata);
    element("explorer").scrollIntoView();
  });
  document.documentElement.dataset.ready = "yes";
})();
