"""A synthetic citation network: few citations, words as real-valued features."""

from __future__ import annotations

import numpy as np
import torch

from graphlatent.data.assemble import assemble
from graphlatent.data.graph import GraphData, RawGraph
from graphlatent.errors import bad_argument

# How the frequencies of words fall with their rank, and how far a topic changes them (log scale).
_ZIPF, _TOPIC = 0.8, 0.6


def citation_graph(
    *,
    num_nodes: int = 1500,
    num_classes: int = 6,
    num_words: int = 500,
    avg_degree: float = 3.0,
    homophily: float = 0.75,
    seed: int = 0,
) -> GraphData:
    """Papers with topics as labels y [N], citations between them, and features x [N, F].

    Words are drawn with the frequencies of the paper's topic, 23 a paper on average. Their counts
    are weighted by inverse document frequency, and rows have norm 1, as citation networks are
    mostly published: an entry is small beside the masking noise of the paper's settings, with which
    training loses what features say.

    Args:
        num_nodes: papers.
        num_classes: topics.
        num_words: F.
        avg_degree: citations of a paper, made or received, before repeated ones are merged.
        homophily: share of citations within a topic; the others lead anywhere.
        seed: the same seed gives the same graph.

    Raises:
        ConfigError: where an argument is out of range.
    """
    owner = "citation_graph"
    counts = {"num_nodes": num_nodes, "num_classes": num_classes, "num_words": num_words}
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise bad_argument(name, owner=owner, allowed="an int of at least 1", got=value)
    if not 0 <= homophily <= 1:
        raise bad_argument("homophily", owner=owner, allowed="a float from 0 to 1", got=homophily)
    if not avg_degree >= 0:
        raise bad_argument(
            "avg_degree", owner=owner, allowed="a float of at least 0", got=avg_degree
        )
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, num_classes, num_nodes)
    source = rng.integers(0, num_nodes, round(num_nodes * avg_degree / 2))
    target = rng.integers(0, num_nodes, len(source))
    for i in np.flatnonzero(rng.random(len(source)) < homophily):
        target[i] = rng.choice(np.flatnonzero(topic == topic[source[i]]))
    usual = 1 / np.arange(1, num_words + 1) ** _ZIPF
    of_topic = usual * np.exp(_TOPIC * rng.standard_normal((num_classes, num_words)))
    of_topic /= of_topic.sum(1, keepdims=True)
    length = 3 + rng.poisson(20, num_nodes)
    count = np.stack([rng.multinomial(n, of_topic[t]) for n, t in zip(length, topic, strict=True)])
    weight = np.log(num_nodes / np.maximum((count > 0).sum(0), 1))
    x = count * weight
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    raw = RawGraph(
        np.stack([source, target]),
        num_nodes,
        x=torch.from_numpy(x.astype(np.float32)),
        y=torch.from_numpy(topic),
        directed=False,
        name="citation_graph",
    )
    return assemble([raw])
