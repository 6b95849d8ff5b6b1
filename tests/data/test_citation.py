"""The synthetic citation network: sizes, rows of norm 1, homophily, wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphlatent.data.citation import citation_graph
from graphlatent.errors import ConfigError, GraphLatentWarning


def test_what_it_consists_of():
    graph = citation_graph(num_nodes=900, num_words=100, avg_degree=4.0, homophily=0.8)
    y = np.asarray(graph.y)
    assert graph.x.shape == (900, 100) and set(y) == set(range(6))
    assert torch.allclose(graph.x.norm(dim=1), torch.ones(900), atol=1e-6)
    assert 0.02 < float((graph.x > 0).float().mean()) < 0.25
    source, target = graph.edge_index.numpy()
    assert len(source) / 900 == pytest.approx(4, rel=0.05)
    # Those that lead anywhere stay inside one time in six.
    assert np.mean(y[source] == y[target]) == pytest.approx(0.8 + 0.2 / 6, abs=0.03)
    again, other = citation_graph(num_nodes=50), citation_graph(num_nodes=50, seed=1)
    assert torch.equal(citation_graph(num_nodes=50).x, again.x)
    assert not torch.equal(again.x, other.x)


def test_tiny_graphs():
    with pytest.warns(GraphLatentWarning, match="The input has no edges"):
        one = citation_graph(num_nodes=1, num_classes=1, num_words=1, avg_degree=0.0)
    assert (one.num_nodes, one.num_edges) == (1, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_nodes", 0),
        ("num_classes", True),
        ("num_words", 1.5),
        ("homophily", 2),
        ("avg_degree", -1),
    ],
)
def test_wrong_arguments(name, value):
    message = f"^The '{name}' parameter of citation_graph must be .*. Got {value} instead.$"
    with pytest.raises(ConfigError, match=message):
        citation_graph(**{name: value})
