"""Settings of any type and size: on the command line, in TOML files and from Python.

A setting is refused in a line or two, or the run it gives has finite embeddings; and it means the
same in all three places.
"""

from __future__ import annotations

import dataclasses
import decimal
import fractions
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.compare import require
from fuzz.harness import Place, Refused, command
from fuzz.hostile import VALUES
from fuzz.mutate import FIELDS, damaged
from fuzz.signals import write_inputs
from graphlatent import GraphLaGraph, NodeBGRL, NodeDGI, NodeLaGraph, read_graphs
from graphlatent.errors import GraphLatentError

_SMALL = {"epochs": 1, "hidden_dim": 4, "device": "cpu"}
# More of these takes longer and is no mistake, so they stay small.
_COSTLY = ("epochs", "steps_per_epoch", "num_layers", "decoder_layers", "predictor_layers")
_ESTIMATORS = {
    ("node", "lagraph"): NodeLaGraph,
    ("graph", "lagraph"): GraphLaGraph,
    ("node", "bgrl"): NodeBGRL,
    ("node", "dgi"): NodeDGI,
}
# Values that are allowed by themselves; some contradict each other.
VALID: dict[str, tuple[Any, ...]] = {
    "hidden_dim": (1, 3),
    "num_layers": (1, 2, 3),
    "epochs": (0, 1, 2),
    "lr": (1, 0.01, 1e-5),
    "optimizer": ("adam", "adamw"),
    "weight_decay": (0, 0.5),
    "schedule": ("none", "cosine"),
    "warmup_ratio": (0, 1, 0.5),
    "patience": (1, 5),
    "degree_cap": (1, 5),
    "standardize": (True, False),
    "row_normalize": (True, False),
    "scale_features": (True, False),
    "symmetrize": (True, False),
    "random_state": (0, 7, 2**31 - 1),
    "features": ("dense", "sparse"),
    "batching": ("auto", "full", "nodes", "clusters", "neighbors"),
    "nodes_per_step": (1, 5, 10**9),
    "num_neighbors": (1, 3, None),
    "parts_per_step": (1, 4, 10**9),
    "num_workers": (0, 2),
    "concat_input": (True, False),
    "embedding": ("encoder", "combined"),
    "embedding_dim": (1, 3, 600),
    "feature_weight": (0, 2.5),
    "structure": ("auto", "none", "always"),
    "structure_dim": (1, 3, 500),
    "preset": ("plus", "paper", "released"),
    "size": ("small", "base", "large"),
    "encoder": ("gcn", "gin"),
    "activation": ("prelu", "relu"),
}


@dataclasses.dataclass(frozen=True)
class _Opaque:
    """A Python value that is no setting."""

    name: str = "x"


_OBJECTS: tuple[Any, ...] = (
    *(np.float64(0.5), np.int64(2), np.array(3), np.array([1, 2]), np.nan, np.bool_(True)),
    *(fractions.Fraction(1, 2), decimal.Decimal("0.5"), decimal.Decimal("NaN"), 1j, 1 + 0j),
    *(b"gcn", ("gcn",), {"gcn"}, _Opaque(), _Opaque, len, object(), range(3), np.str_("gcn")),
)


def prepare(folder: Path) -> None:
    """A small graph."""
    write_inputs(folder)


def settings(rng: random.Random, place: Place) -> None:
    """One of the ways below."""
    ways = (*(_assigned, _in_file, _from_python) * 3, _alike, *(_options,) * 2)
    rng.choice(ways)(rng, place)


def _model(rng: random.Random) -> tuple[str, str]:
    return rng.choice((("node", "lagraph"), ("node", "lagraph"), *_ESTIMATORS))


def _name(rng: random.Random, model: tuple[str, str]) -> str:
    names = sorted(_ESTIMATORS[model]().get_params())
    odd = ("", "unknown", "hidden_dims", "__class__", "method", "level", "settings", "a b", "é=")
    return rng.choice(odd) if rng.random() < 0.05 else rng.choice(names)


def _value(rng: random.Random, name: str) -> Any:
    """Of any type and size; an allowed one at times."""
    if name in VALID and rng.random() < 0.2:
        return rng.choice(VALID[name])
    while True:
        value = rng.choice((*VALUES, *FIELDS))
        try:
            large = float(value) > 4
        except (TypeError, ValueError, OverflowError):
            large = False
        if not (large and name in _COSTLY):
            return value


def _train(place: Place, out: Path, *more: object) -> None:
    command("train", place.prepared / "edges.csv", "--out", out, "--quiet", *more)
    import pandas as pd

    rows = pd.read_parquet(out / "embeddings.parquet").select_dtypes("number").to_numpy()
    require(np.isfinite(rows).all(), f"embeddings are not finite: {more}")


def _assigned(rng: random.Random, place: Place) -> None:
    """`--set`, once to three times."""
    model = _model(rng)
    given: list[object] = ["--level", model[0], "--method", model[1]]
    for name, small in _SMALL.items():
        given += ["--set", f"{name}={small}"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = _name(rng, model)
        sign = "=" if rng.random() < 0.97 else rng.choice((" = ", "", "==", ":"))
        given += ["--set", f"{name}{sign}{_value(rng, name)}"]
    _train(place, place.folder / "run", *given)


def _toml(value: Any) -> str:
    if value is None:
        # TOML has no such value, and config.toml has this text.
        return '"none"'
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def _in_file(rng: random.Random, place: Place) -> None:
    """A TOML file, with settings at the top or in their table; damaged at times."""
    model = _model(rng)
    values = dict(_SMALL)
    for _ in range(rng.choice((1, 1, 2))):
        name = _name(rng, model)
        values[name] = _value(rng, name)
    lines = [f"{_key(name)} = {_toml(value)}" for name, value in values.items()]
    if rng.random() < 0.1:
        lines.insert(0, rng.choice(("hidden_dim = 1979-05-27", "lr = [1, [2]]", "a.b = 1")))
    head = [f"level = {_toml(model[0])}", f"method = {_toml(model[1])}"]
    if rng.random() < 0.1:
        head[rng.randrange(2)] = f"{rng.choice(('level', 'method'))} = {_toml(rng.choice(VALUES))}"
    lines = [*head, *(["[settings]"] if rng.random() < 0.6 else []), *lines]
    if rng.random() < 0.15:
        odd = _toml(rng.choice(VALUES))
        lines += ["[reading]", f"{rng.choice(('source', 'label', 'features', 'odd'))} = {odd}"]
    data = "\n".join(lines).encode()
    if rng.random() < 0.2:
        data = damaged(data, rng, times=1)
        if any(name.encode() in data for name in _COSTLY[1:]):
            return
    path = place.folder / "settings.toml"
    path.write_bytes(data)
    # Damage may have made another number of epochs.
    _train(place, place.folder / "run", "--config", path, "--set", "epochs=1")


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name)


def _from_python(rng: random.Random, place: Place) -> None:
    """Arguments of an estimator, of types that only Python has too."""
    model = _model(rng)
    cls = _ESTIMATORS[model]
    name = rng.choice(sorted(cls().get_params()))
    value = rng.choice(_OBJECTS) if rng.random() < 0.5 else _value(rng, name)
    estimator = cls(**{**_SMALL, name: value})
    if rng.random() < 0.3:
        estimator = cls(**_SMALL).set_params(**{name: value})
    graph = read_graphs(place.prepared / "edges.csv", symmetrize=estimator.symmetrize is not False)
    rows = estimator.fit(graph).transform(graph)
    require(np.isfinite(rows).all(), f"embeddings are not finite: {name}={value!r}")
    if rng.random() < 0.3:
        loaded = cls.load(estimator.save(place.folder / "saved")).transform(graph)
        require(np.array_equal(rows, loaded), f"another embedding when loaded: {name}={value!r}")


def _alike(rng: random.Random, place: Place) -> None:
    """Allowed values through `--set`, a file and Python: the same model, or three refusals."""
    values = dict(_SMALL)
    for name in rng.sample(sorted(VALID), rng.randint(1, 3)):
        values[name] = rng.choice(VALID[name])
    path = place.folder / "settings.toml"
    path.write_text("\n".join(f"{name} = {_toml(value)}" for name, value in values.items()))
    given = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    found = {
        "--set": _model_bytes(lambda out: _train(place, out, *given), place.folder / "set"),
        "TOML": _model_bytes(
            lambda out: _train(place, out, "--config", path), place.folder / "toml"
        ),
        "Python": _model_bytes(lambda out: _fit(place, out, values), place.folder / "python"),
    }
    kinds = {name: each if isinstance(each, str) else "a model" for name, each in found.items()}
    require(len(set(found.values())) == 1, f"{values} give {kinds}, not the same")


def _fit(place: Place, out: Path, values: dict[str, Any]) -> None:
    graph = read_graphs(place.prepared / "edges.csv", symmetrize=values.get("symmetrize", True))
    NodeLaGraph(**values).fit(graph).save(out)


def _model_bytes(train: Any, out: Path) -> bytes | str:
    try:
        train(out)
    except (GraphLatentError, Refused):
        return "refused"
    return (out / "model.safetensors").read_bytes()


def _options(rng: random.Random, place: Place) -> None:
    """Options of the command line, with values of any kind."""
    options = ("--source", "--target", "--weight", "--id", "--graph-column", "--label")
    options += ("--features", "--nodes", "--config", "--level", "--method", "--save-every")
    given = [part for name, value in _SMALL.items() for part in ("--set", f"{name}={value}")]
    for option in rng.sample(options, rng.choice((1, 1, 2))):
        value = str(rng.choice((*FIELDS, *VALUES, "source", "target", "weight", "node", "graph")))
        given += [option, value]
    _train(place, place.folder / "run", *given)
