"""Graph embeddings inside a scikit-learn pipeline, with a grid search over the method's own
settings.

    python examples/sklearn_pipeline.py

In a pipeline the encoder is fitted on the training folds only, so the score is that of graphs never
seen before.
"""

import networkx as nx
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from graphlatent import GraphLaGraph

rng = np.random.default_rng(0)
sizes = rng.integers(10, 25, 60)
graphs = [nx.random_regular_graph(3, int(n) // 2 * 2, seed=i) for i, n in enumerate(sizes[:30])]
graphs += [nx.barabasi_albert_graph(int(n), 2, seed=i) for i, n in enumerate(sizes[30:])]
labels = np.repeat([0, 1], 30)

# The graphs have no features, so node degrees are used
pipeline = make_pipeline(
    GraphLaGraph(epochs=5, degree_cap=16), StandardScaler(), LogisticRegression(max_iter=1000)
)
search = GridSearchCV(pipeline, {"graphlagraph__alpha": [0.1, 10.0]}, cv=3)
search.fit(graphs, labels)
print("cross-validated accuracy:", round(search.best_score_, 3), "with", search.best_params_)
