"""What defines a row in a cell, and whether a record was measured with it.

A record keeps the whole definition: data and encoding, protocol and metric, what its probes choose
from, and every resolved setting of the method. Its fingerprint is computed from that when it is
read, with settings that the record does not name set to their defaults. Therefore

- a setting that is added later, with a default that changes nothing, makes no record stale;
- a changed default makes those records stale whose rows use it, and no others;
- what a row does not use (another row's settings, another probe's grid) is not in its definition;
- where the code of combined embeddings changes them, their version makes records stale.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

from graphlatent.bench.methods import default_settings
from graphlatent.bench.recipe import Recipe
from graphlatent.bench.rows.base import Row
from graphlatent.bench.shapes import SHAPES
from graphlatent.config import Level
from graphlatent.data.datasets import dataset_info
from graphlatent.errors import ConfigError
from graphlatent.nn import combined_graph_head, node_head

INTRODUCED_AS: Mapping[tuple[str, Level, str], Any] = {
    ("lagraph", "node", "embedding"): "encoder",
    ("lagraph", "graph", "embedding"): "readout",
    **{
        ("lagraph", level, setting): value
        for level in get_args(Level)
        for setting, value in {
            "scale_features": False,
            "structure": "none",
            "variance_weight": 0.0,
        }.items()
    },
}
"""By method, level and setting: the value that records without the setting were measured with.

Needed only where today's default is not that value.
"""

# Without effect on other embeddings, so that their defaults may change.
_COMBINED_ONLY = ("feature_weight", "encoder_weight")


def define(recipe: Recipe, row: Row) -> dict[str, Any]:
    """All that defines a row in a cell, in plain values, for a record."""
    data: dict[str, Any] = {"dataset": recipe.dataset, "binarize": recipe.binarize}
    if recipe.dataset in SHAPES:
        data["shape"] = asdict(SHAPES[recipe.dataset])
    elif dataset_info(recipe.dataset).num_features == 0:
        # Degrees are used as features.
        data["degree_cap"] = int(recipe.settings().degree_cap)
    if recipe.labels is not None:
        data["labels"] = asdict(recipe.labels)
    definition = {
        "data": data,
        "level": recipe.level,
        "protocol": recipe.protocol,
        "metric": recipe.metric,
        **asdict(row.plan(recipe)),
    }
    if definition["settings"].get("embedding") == "combined":
        head = node_head if recipe.level == "node" else combined_graph_head
        definition["embedding_form"] = head.FORM_VERSION
    plain: dict[str, Any] = json.loads(json.dumps(definition))
    return plain


def fingerprint(definition: Mapping[str, Any]) -> str:
    """16 hex digits, equal for definitions that measure the same; "" for an empty one."""
    if not definition:
        return ""
    settings = {
        **_introduced_as(definition["method"], definition["level"]),
        **definition["settings"],
    }
    if settings.get("embedding") != "combined":
        settings = {name: value for name, value in settings.items() if name not in _COMBINED_ONLY}
    text = json.dumps({**definition, "settings": settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _introduced_as(method: str, level: Level) -> dict[str, Any]:
    """The values of settings that a record does not name; none of a method that is not known."""
    if not method:
        return {}
    known = {
        setting: value
        for (of, at, setting), value in INTRODUCED_AS.items()
        if (of, at) == (method, level)
    }
    try:
        return {**default_settings(method, level), **known}
    except ConfigError:
        return known
