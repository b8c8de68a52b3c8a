"""`cge update`: change the graph of a saved model and recompute what the changes reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.command import shell_message
from cge.cli.common_options import Json, ModelFolder, ModelJobs, Quiet, text_option
from cge.cli.graph_options import ChangeFiles
from cge.cli.model_files import load_model, read_test_labels, wrong_model
from cge.cli.option_groups import takes_options
from cge.cli.printing import print_json, print_notes, print_pairs
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.data.graph_update import GraphUpdate
    from cge.estimators.cge import CGE
    from cge.targets import TargetTexts

Out = Annotated[str | None, text_option("DIR", "Folder for the changed model \\[default: it replaces the old one].")]


@takes_options
def update(
    folder: ModelFolder,
    *,
    files: ChangeFiles,
    out: Out = None,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Change the graph of a saved model: add and remove edges, add nodes, features and labels.

    Parameters stay as they were trained, and only nodes that a change can reach are computed again; the result is the
    same as if all were. It says when so much has changed that a new 'cge fit' is advisable.

    For example:

      cge update model --add-edges new-edges.csv --remove-edges gone.csv
      cge update model --features changed.csv --labels new-labels.csv --out model-2
    """
    import warnings

    from cge.errors import CgeWarning
    from cge.estimators.cge import CGE

    model = load_model(folder, n_jobs)
    if not isinstance(model, CGE):
        raise wrong_model(model, folder, "which cannot be updated", "train a model with 'cge fit'")
    changes, notes = files.read(model, files.remove_edges)
    if changes is None:
        options = "--add-edges, --remove-edges, --features or --labels"
        raise InputError(f"there is nothing to change; give {options} a file")
    labels = None if files.labels is None else _labels(model, changes, files.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CgeWarning)  # the advice is printed
        summary = model.update(changes, labels)
    target = out or folder
    model.save(target)
    notes = [shell_message(note) for note in (*notes, *summary.notes)]
    content = {"folder": target, **summary.as_dict(), "notes": notes}
    if as_json:
        print_json(content)
    elif not quiet:
        print_notes(notes)
        _print(content, model.fitted_.target.texts)


def _labels(model: CGE, changes: GraphUpdate, file: str) -> dict[Any, Any]:
    """Return the labels in a file, also of new nodes, by node id."""
    from cge.estimators.predictions import extended_graph

    target, graph = model.fitted_.target, extended_graph(model, changes, replace_features=True).graph
    codes = read_test_labels(model, file, graph)
    nodes = target.labeled(codes).nonzero()[0]
    return dict(zip(graph.node_ids[nodes].tolist(), target.decode(codes[nodes]), strict=True))


def _print(content: dict[str, Any], texts: TargetTexts) -> None:
    counts = f"{content['changed_nodes']:,} changed, {content['new_nodes']:,} of them new"
    changed = f"{content['changed_predictions']:,}"
    rows = [
        ("nodes", f"{content['nodes']:,}: {counts}"),
        ("computed again", f"{content['affected_nodes']:,}, of which {changed} changed {texts.noun}"),
    ]
    if content["confidence"] is not None:
        before, after = content["confidence"]
        rows.append(("confidence", f"{before:.3f} before, {after:.3f} after (mean of existing nodes computed again)"))
    if content["label_score"] is not None:
        rows.append(("new labels", f"{texts.new_label_score.format(score=content['label_score'])}, before the update"))
    advice = "; ".join(content["advice"])
    rows.append(("changed since fit", f"{content['changed_since_fit']:.1%} of the nodes"))
    rows += [("advice", f"{advice}: fit again on the new graph")] if advice else []
    print_pairs([*rows, ("written to", content["folder"])])
