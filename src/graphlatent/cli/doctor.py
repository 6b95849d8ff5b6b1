"""`graphlatent doctor`: what is installed, where it computes, and whether training works here."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from graphlatent._version import __version__
from graphlatent.cli.output import Debug, Json, Output, Quiet, command_output

PACKAGES = (
    *("torch", "torch_geometric", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow"),
    *("safetensors", "typer", "rich", "matplotlib"),
)
# Optional packages: the extra that installs each, and what it is for.
EXTRAS = {
    "networkx": ("networkx", "NetworkX graphs"),
    "rdkit": ("molecules", "molecules from SMILES"),
    "umap-learn": ("umap", "maps by UMAP"),
    "plotly": ("interactive", "interactive maps"),
    "polars": ("polars", "polars frames"),
    "duckdb": ("scale", "graphs larger than memory"),
    "pymetis": ("scale", "training on parts of a large graph"),
}


def doctor(quiet: Quiet = False, as_json: Json = False, debug: Debug = False) -> None:
    """Show versions, devices and optional packages, and test training on a small graph.

    Ends with exit code 1 where the test fails. Takes a few seconds.
    """
    with command_output(quiet=quiet, as_json=as_json, debug=debug) as output:
        about = {
            "graphlatent": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {name: installed_version(name) for name in PACKAGES},
            "extras": {name: installed_version(name) for name in EXTRAS},
            **_computing(),
        }
        _report(output, about)
        began = time.monotonic()
        test = _self_test(debug=debug)
        test["seconds"] = round(time.monotonic() - began, 1)
        output.say(_verdict(test))
        output.result({**about, "self_test": test})
    if not test["passed"]:
        raise typer.Exit(1)


def installed_version(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _computing() -> dict[str, Any]:
    import torch

    from graphlatent.ops.devices import pick_device
    from graphlatent.ops.threads import VARIABLES, chosen_by_user

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "device": str(pick_device("auto")),
        "gpus": [torch.cuda.get_device_name(i) for i in range(count)],
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "threads_chosen": chosen_by_user(),
        "variables": {name: os.environ[name] for name in VARIABLES if os.environ.get(name)},
    }


def _report(output: Output, about: dict[str, Any]) -> None:
    output.say(f"graphlatent {about['graphlatent']}, Python {about['python']}, {about['platform']}")
    packages = about["packages"].items()
    output.say("Packages: " + ", ".join(f"{name} {found or 'missing'}" for name, found in packages))
    output.say(f"Device: {', '.join(about['gpus']) or 'CPU; torch finds no GPU here'}")
    given = ", ".join(f"{name}={value}" for name, value in about["variables"].items())
    how = f" ({given})" if given else ""
    small = "" if about["threads_chosen"] else "; small graphs are trained with 1"
    output.say(f"Threads: {about['threads']} of {about['cores']} cores{how}{small}")
    output.say("Optional packages:")
    for package, (extra, purpose) in EXTRAS.items():
        found = about["extras"][package]
        state = found or f"not installed; pip install 'graphlatent[{extra}]'"
        output.say(f"  {package}, for {purpose}: {state}")


def _self_test(*, debug: bool) -> dict[str, Any]:
    """Train on a small graph of two communities and check what comes out."""
    try:
        return _train_and_check()
    # Whatever is wrong with an installation is to be reported.
    except Exception as error:
        if debug:
            raise
        return {"passed": False, "reason": f"{type(error).__name__}: {error}"}


def _train_and_check() -> dict[str, Any]:
    import numpy as np

    from graphlatent.data.synthetic import latent_graph
    from graphlatent.methods.lagraph.estimators import NodeLaGraph

    made = latent_graph(
        num_nodes=200,
        num_classes=2,
        feature_dim=16,
        avg_degree=12.0,
        homophily=0.95,
        # So noisy that the features alone say little.
        sigma=3.0,
        seed=0,
    )
    raw = np.asarray(made.graph.x)
    model = NodeLaGraph(size="small", epochs=30)
    rows = model.fit(made.graph).transform(made.graph)
    loss = model.history_.loss
    labels = np.unique(made.labels, return_inverse=True)[1]
    found: dict[str, Any] = {
        "loss_first": loss[0],
        "loss_last": loss[-1],
        "accuracy": _nearest_centre_accuracy(rows, labels),
        "accuracy_raw": _nearest_centre_accuracy(raw, labels),
        "device": str(next(model.model_.parameters()).device),
    }
    checks = {
        "the embeddings are not finite": bool(np.isfinite(rows).all()),
        "the loss did not fall": loss[-1] < loss[0],
        "the communities are not told apart": found["accuracy"]
        > max(0.9, found["accuracy_raw"] + 0.15),
        "the same seed gives other embeddings": bool(
            (NodeLaGraph(size="small", epochs=30).fit_transform(made.graph) == rows).all()
            or found["device"] != "cpu"
        ),
    }
    wrong = [what for what, holds in checks.items() if not holds]
    return {"passed": not wrong, "reason": "; ".join(wrong), **found}


def _nearest_centre_accuracy(rows: Any, labels: Any) -> float:
    """How many rows of the second half are nearest to their community's mean of the first."""
    import numpy as np

    half = np.arange(len(rows)) % 2 == 0
    centres = np.stack([rows[half & (labels == k)].mean(0) for k in (0, 1)])
    distances = np.square(rows[~half, None] - centres).sum(2)
    return float((distances.argmin(1) == labels[~half]).mean())


def _verdict(test: dict[str, Any]) -> str:
    if not test["passed"]:
        return (
            f"Self-test: failed after {test['seconds']} s: {test['reason']}. Install graphlatent in"
            " a fresh environment and try again; '--debug' shows where an error came from."
        )
    return (
        f"Self-test: passed in {test['seconds']} s. Training on 200 nodes ({test['device']}): loss"
        f" {test['loss_first']:.3g} to {test['loss_last']:.3g}; two communities told apart with"
        f" {test['accuracy']:.0%} accuracy, {test['accuracy_raw']:.0%} by raw features."
    )
