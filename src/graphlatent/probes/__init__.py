"""Probes: simple models on frozen representations, their settings chosen without test labels."""

from graphlatent.probes.clustering import cluster_probe
from graphlatent.probes.communities import community_probe
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.links import hold_out_edges, link_probe
from graphlatent.probes.protocol import Protocol, ReleasedProtocol
from graphlatent.probes.results import ProbeResult, paired, summarize
from graphlatent.probes.svm import svm_probe
from graphlatent.probes.training_probe import TrainingProbe

__all__ = [
    "ProbeResult",
    "Protocol",
    "ReleasedProtocol",
    "TrainingProbe",
    "cluster_probe",
    "community_probe",
    "hold_out_edges",
    "knn_probe",
    "linear_probe",
    "link_probe",
    "paired",
    "summarize",
    "svm_probe",
]
