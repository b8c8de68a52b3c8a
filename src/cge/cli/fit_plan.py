"""The plan of a fit: what would be trained and compared (`cge fit --dry-run`), and whether the memory suffices."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from cge.cli.fit_output import describe_labels
from cge.cli.printing import print_pairs, print_table
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan
    from cge.graph import Graph

_COLUMNS = ("stage", "weighting", "classifier", "label propagation", "condition")


def plan_json(plan: FitPlan, graph: Graph, out: str, available: int | None) -> dict[str, Any]:
    """Return a plan as a JSON object, with the names of `fit_summary` and `search_results_` for the same things."""
    sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "folder": out, "dry_run": True}
    settings = {"labels_seen": plan.labels, "refit": plan.refit, "sizes": plan.sizes, "inputs": plan.inputs}
    memory = {"peak_bytes": round(plan.peak_bytes), "available_bytes": available}
    booleans, rows = {"yes": True, "no": False}, plan.rows()
    for row in rows:
        row["label_propagation"] = booleans.get(row["label_propagation"], row["label_propagation"])
    return {**sizes, **settings, "candidates": rows, **memory}


def print_plan(plan: FitPlan, graph: Graph, out: str, available: int | None) -> None:
    """Print a plan, and that nothing was done."""
    learned, outer_labels = "may be learned" if plan.candidates else "are learned", plan.sizes.get("outer_labels", "")
    how = {"outer_labels": outer_labels, "cross_validated": plan.cross_validated}
    counts = describe_labels(plan.labels, plan.refit, learned, **how)
    refit = "; then refitted on all labels" if plan.refit else ""
    memory = "" if available is None else f", of {format_bytes(available)} available"
    rows = [("nodes", f"{graph.num_nodes:,}"), ("edges", f"{graph.num_edges:,}"), ("labels", counts + refit)]
    rows += _path_encoder_rows(plan, graph) if plan.candidates else _paper_rows(plan.sizes)
    print_pairs([*rows, ("memory", f"about {format_bytes(plan.peak_bytes)} at most{memory}"), ("output folder", out)])
    if plan.candidates:
        print()
        print_table([(title, "left") for title in _COLUMNS], _candidates(plan))
        print()
    print("nothing was trained or written (--dry-run)")


def _path_encoder_rows(plan: FitPlan, graph: Graph) -> list[tuple[str, str]]:
    names = {"learned": "a learned embedding table", "walks": "walk embeddings"}
    inputs = names.get(str(plan.inputs), "features")
    if plan.inputs == "features" and graph.features is not None:
        inputs += f", {graph.features.shape[1]:,} per node"
    sizes = f"paths of up to {plan.sizes['hops']} hops, projected to {plan.sizes['dim']} dimensions"
    return [("inputs", inputs), ("sizes", sizes)]


def _paper_rows(sizes: dict[str, Any]) -> list[tuple[str, str]]:
    walks = f"{sizes['walks_per_node']} per node with {sizes['walk_length']} nodes, window {sizes['window']}"
    loss = "softmax over all nodes" if sizes["loss"] == "softmax" else f"{sizes['negatives']} negative samples"
    rows = [("weighting", sizes["weighting"]), ("walks", walks), ("path loss", loss)]
    return [*rows, ("sizes", f"vectors of {sizes['dim']} dimensions"), ("epochs", f"at most {sizes['max_epochs']}")]


def _candidates(plan: FitPlan) -> list[list[str]]:
    """Return the rows of the table of candidates; those that differ in one column are put in one row."""
    rows = [[row[title.replace(" ", "_")] for title in _COLUMNS] for row in plan.rows()]
    for column in (2, 1):
        groups = groupby(rows, key=lambda row, column=column: [*row[:column], *row[column + 1 :]])  # type: ignore[misc]
        rows = [[*key[:column], _shortened([row[column] for row in group]), *key[column:]] for key, group in groups]
    return rows


def _shortened(names: list[str]) -> str:
    from cge.models.weightings import is_hop_profile

    if len(names) > 1 and all(map(is_hop_profile, names)):
        return f"hop profiles ({len(names)})"
    return ", ".join(names)


def format_bytes(count: float) -> str:
    """Return a number of bytes in words.

    >>> format_bytes(583e6), format_bytes(41.2e9)
    ('580 MB', '41 GB')
    """
    if count < 0.995e9:
        return f"{round(count / 1e7) * 10:.0f} MB"
    return f"{count / 1e9:.1f} GB" if count < 9.95e9 else f"{count / 1e9:,.0f} GB"


def refuse_too_large(plan: FitPlan, available: int | None) -> None:
    """Refuse a fit that needs more memory than there is."""
    if available is None or plan.peak_bytes <= available:
        return
    if not plan.candidates:
        hint = "use fewer --walks-per-node, a smaller --window or --dim, or --weighting uniform"
    elif any(candidate.stage in ("weighting", "classifier") for candidate in plan.candidates):
        hint = "compare fewer candidates (--weighting degree --classifier mlp), or use a smaller --dim"
    elif plan.inputs != "features":
        hint = "use a smaller --dim, or add --features"
    else:
        hint = "use a smaller --dim, or fewer features"
    raise InputError(
        f"this fit needs about {format_bytes(plan.peak_bytes)} of memory, {format_bytes(available)} are available",
        hint=f"{hint}; --no-memory-check starts it anyway",
    )
