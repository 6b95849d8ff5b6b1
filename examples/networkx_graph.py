"""Embeddings of a NetworkX graph, with node attributes by name.

python examples/networkx_graph.py
"""

import networkx as nx

from graphlatent import NodeLaGraph, read_graphs

# Nodes have an attribute 'club'; edges have weights
club = nx.karate_club_graph()
nx.set_node_attributes(club, dict(nx.clustering(club)), "clustering")
nx.set_node_attributes(club, dict(nx.core_number(club)), "core")

# 'club' is what we might want to predict, so it is no feature
graph = read_graphs(club, label="club")
embeddings = NodeLaGraph(hidden_dim=16, epochs=100).fit(graph).embed(graph).to_pandas()
embeddings["club"] = graph.y
print(embeddings.iloc[:3, [0, 1, 2, -1]])
print("embedded", len(embeddings), "members")
