"use strict";

const field = (id) => document.getElementById(id);
let token = "";

async function ask(operation, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(operation, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (response.status === 401) field("token-field").hidden = false;
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function cell(content, number) {
  const element = document.createElement("td");
  if (content instanceof Node) element.append(content);
  else element.textContent = content;
  if (number) element.className = "number";
  return element;
}

function link(node) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = node;
  button.addEventListener("click", () => { field("node").value = node; show(); });
  return button;
}

function fill(id, titles, rows) {
  const head = document.createElement("tr");
  for (const [title, number] of titles) {
    const element = document.createElement("th");
    element.textContent = title;
    if (number) element.className = "number";
    head.append(element);
  }
  const lines = rows.map((cells) => {
    const line = document.createElement("tr");
    line.append(...cells.map((content, place) => cell(content, titles[place][1])));
    return line;
  });
  field(id).replaceChildren(head, ...lines);
}

function bars(probabilities) {
  const sorted = Object.entries(probabilities).sort((a, b) => b[1] - a[1]).slice(0, 10);
  field("probabilities").replaceChildren(...sorted.map(([name, probability]) => {
    const row = document.createElement("div"), meter = document.createElement("meter");
    row.className = "bar";
    meter.value = probability;
    const label = document.createElement("span"), number = document.createElement("span");
    label.textContent = name;
    number.textContent = `${(100 * probability).toFixed(1)} %`;
    row.append(label, meter, number);
    return row;
  }));
}

function path(nodes) {
  const parts = document.createElement("span");
  nodes.forEach((node, place) => parts.append(...(place ? [" → "] : []), link(node)));
  return parts;
}

async function show(event) {
  event?.preventDefault();
  const node = field("node").value.trim();
  token = field("token").value;
  field("error").textContent = "";
  try {
    const { predictions: [prediction] } = await ask("predict", { nodes: [node] });
    const value = "class" in prediction ? [].concat(prediction.class).join(", ") || "no class" : prediction.value;
    field("title").textContent = `${prediction.node}: ${value}`;
    bars(prediction.probabilities ?? {});
    field("evidence").textContent = `evidence: ${prediction.evidence}`;
    const [explanation, similar] = await Promise.all([ask("explain", { node, top: 10 }), ask("similar", { node })]);
    fill("paths", [["path", false], ["contribution", true]],
      explanation.paths.map((row) => [path(row.path), row.contribution.toFixed(3)]));
    fill("similar", [["node", false], ["cosine", true]],
      similar.similar.map((row) => [link(row.node), row.score.toFixed(3)]));
    field("links").replaceChildren();
    document.querySelector("main").hidden = false;
  } catch (error) {
    field("error").textContent = error.message;
  }
}

async function links() {
  try {
    const answer = await ask("links", { node: field("node").value.trim(), top: 10 });
    fill("links", [["node", false], ["score", true]],
      answer.links.map((row) => [link(row.target), row.score.toFixed(3)]));
  } catch (error) {
    field("error").textContent = error.message;
  }
}

field("search").addEventListener("submit", show);
field("find-links").addEventListener("click", links);
fetch("health").then((response) => response.json()).then((model) => {
  field("model").textContent =
    `${model.model}, ${model.nodes.toLocaleString()} nodes, ${model.edges.toLocaleString()} edges, ` +
    `${model.classes.length} classes`;
  field("node").placeholder = model.example;
});
