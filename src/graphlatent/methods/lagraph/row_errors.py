"""How badly the features of each node are reconstructed, by the error that the objective uses."""

from __future__ import annotations

import torch
from torch import Tensor

from graphlatent.data.batches import Batch
from graphlatent.methods.lagraph.cosine import COSINE_EPS
from graphlatent.methods.lagraph.model import LaGraphModel
from graphlatent.methods.lagraph.objective import row_cross_entropy
from graphlatent.methods.lagraph.settings import LaGraphSettings
from graphlatent.nn.decoders import MLPDecoder
from graphlatent.ops.sparse import dense_rows

# Number of features decoded at a time
_BLOCK = 1 << 24


@torch.no_grad()
def row_errors(
    model: LaGraphModel, batch: Batch, hidden: Tensor, settings: LaGraphSettings
) -> Tensor:
    """The reconstruction error of every node from the plain view, [N].

    It is 1 - cos(D(h_v), x_v) for objective='cosine', the cross-entropy for 'ce-...' and
    |D(h_v) - x_v|^2 otherwise. A node whose features are all 0 has no direction: NaN for 'cosine'.

    Args:
        model: in evaluation mode.
        batch: with the features.
        hidden: the last layer of the encoder [N, H].
        settings: of the objective.
    """
    num_nodes, width = batch.x.shape
    # Only a decoder that looks at each row alone can decode some of them.
    row_by_row = isinstance(model.decoder, MLPDecoder)
    whole = None if row_by_row else model.decode(hidden, batch.structure)
    step = max(1, _BLOCK // max(width, 1))
    parts = []
    for start in range(0, num_nodes, step):
        block = slice(start, min(start + step, num_nodes))
        output = model.decode(hidden[block], batch.structure) if whole is None else whole[block]
        parts.append(_errors(output, dense_rows(batch.x, block.start, block.stop), settings))
    return torch.cat(parts)


def _errors(output: Tensor, x: Tensor, settings: LaGraphSettings) -> Tensor:
    output, x = output.float(), x.float()
    if settings.objective == "cosine":
        length = output.norm(dim=1).clamp(min=COSINE_EPS) * x.norm(dim=1).clamp(min=COSINE_EPS)
        cosine = (output * x).sum(1) / length
        return torch.where(x.norm(dim=1) > 0, 1 - cosine, float("nan"))
    if settings.objective.startswith("ce-"):
        return row_cross_entropy(output, x)
    return (output - x).square().sum(1)
