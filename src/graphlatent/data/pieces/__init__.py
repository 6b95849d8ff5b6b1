"""Sources of training steps on pieces of one graph, which may be memory-mapped.

Only the piece of a step is copied, and only that is put on the training device.
"""

from graphlatent.data.pieces.clusters import ClusterPieces as ClusterPieces
from graphlatent.data.pieces.neighbors import NeighborPieces as NeighborPieces
from graphlatent.data.pieces.nodes import NodePieces as NodePieces
from graphlatent.data.pieces.source import PieceSource as PieceSource
