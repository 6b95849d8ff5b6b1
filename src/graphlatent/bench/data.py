"""From a recipe to its data: the graph, the part that training may see, labels and splits.

Transductive node sets have 20 random 10/10/80 splits, the same for every seed of training. Graph
sets have 10 stratified folds, drawn for every seed. Inductive sets have their published parts:
training sees the subgraph of the training nodes (of PPI the training graphs) alone, the encoder
then embeds everything, the probe is fitted on training nodes and measured on test nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphlatent.bench.recipe import LabelBudget, Recipe
from graphlatent.bench.shapes import SHAPES
from graphlatent.data.datasets import Dataset, dataset_info, is_present, load_dataset
from graphlatent.data.features import encode_features, fit_features
from graphlatent.data.graph import GraphData
from graphlatent.data.induced import induced_subgraph
from graphlatent.data.splits import Split, budget_splits, random_splits
from graphlatent.data.synthetic import latent_graph
from graphlatent.probes.protocol import Protocol, ReleasedProtocol
from graphlatent.probes.svm import outer_fold_splits

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class DatasetBundle:
    """What the cells of one data set share.

    Args:
        graph: everything, features encoded.
        train_graph: what training may see; the same object where that is everything.
        labels: one per node or graph, or a 0/1 table.
        splits: published or random ones; None where folds are drawn for every seed.
        metric: of the scores.
        read_graph: `graph` as it was read, for methods that compute features from the edges; None
            where it has features of its own.
    """

    graph: GraphData
    train_graph: GraphData
    labels: Array
    splits: tuple[Split, ...] | None
    metric: str
    read_graph: GraphData | None = None

    def protocol(
        self, seed: int, *, released: bool = False, budget: LabelBudget | None = None
    ) -> Protocol:
        """A new protocol with locked test labels.

        Args:
            seed: of folds and of splits with few labels.
            released: select as the released scripts do.
            budget: how many rows have a label; None for folds or the data set's own splits.
        """
        if budget is not None:
            few = budget_splits(
                self.labels,
                train_ratio=budget.train,
                val_ratio=budget.val,
                test_ratio=budget.test,
                num_splits=budget.splits,
                seed=seed,
            )
            return Protocol(self.labels, few, metric=self.metric)
        splits = outer_fold_splits(self.labels, seed=seed) if self.splits is None else self.splits
        return (ReleasedProtocol if released else Protocol)(self.labels, splits, metric=self.metric)


def is_available(recipe: Recipe, root: Path) -> bool:
    """Whether the recipe can be run without a download."""
    return recipe.dataset in SHAPES or is_present(dataset_info(recipe.dataset), root)


def load_bundle(recipe: Recipe, root: Path | None) -> DatasetBundle:
    """The recipe's data, read and split."""
    if recipe.dataset in SHAPES:
        return _synthetic(recipe)
    data = load_dataset(recipe.dataset, root=root, binarize=recipe.binarize)
    spec = fit_features(data.graph, degree_cap=recipe.settings().degree_cap)
    graph = encode_features(spec, data.graph)
    labels = np.asarray(graph.y)
    if recipe.protocol in ("folds", "few-labels"):
        read = data.graph if data.graph.x is None else None
        return DatasetBundle(graph, graph, labels, None, recipe.metric, read)
    if recipe.protocol == "splits":
        return DatasetBundle(graph, graph, labels, random_splits(graph.num_nodes), recipe.metric)
    train, val, test = _parts(data, graph)
    split = Split(*(part.nonzero().squeeze(1).numpy() for part in (train, val, test)))
    return DatasetBundle(graph, induced_subgraph(graph, train), labels, (split,), recipe.metric)


def _parts(data: Dataset, graph: GraphData) -> tuple[Tensor, Tensor, Tensor]:
    """The published parts as bools over nodes."""
    masks = (data.train_mask, data.val_mask, data.test_mask)
    train, val, test = (
        mask if mask is not None else torch.zeros(graph.num_nodes, dtype=torch.bool)
        for mask in masks
    )
    if len(train) == graph.num_nodes:
        return train, val, test
    of_node = graph.graph_of_node
    return train[of_node], val[of_node], test[of_node]


def _synthetic(recipe: Recipe) -> DatasetBundle:
    """A synthetic graph of the size of a published data set, with communities as labels.

    Half of the nodes are for training, a quarter for validation and a quarter for testing.
    """
    shape = SHAPES[recipe.dataset]
    info = dataset_info(shape.of)
    num_nodes, degree = int(info.num_nodes), 2 * info.num_edges / info.num_nodes
    made = latent_graph(
        num_nodes=num_nodes,
        num_classes=info.num_classes,
        feature_dim=info.num_features,
        avg_degree=degree,
        homophily=shape.homophily,
        sigma=shape.sigma,
    )
    (split,) = random_splits(num_nodes, num_splits=1, train_ratio=0.5, val_ratio=0.25)
    train = torch.zeros(num_nodes, dtype=torch.bool)
    train[torch.from_numpy(split.train)] = True
    return DatasetBundle(
        made.graph, induced_subgraph(made.graph, train), made.labels, (split,), recipe.metric
    )
