"""The Lipschitz constant of decoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphlatent.errors import ConfigError
from graphlatent.nn.decoders import GNNDecoder, MLPDecoder
from graphlatent.theory import lipschitz_constant


def decoder(depth, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = MLPDecoder(6, 4, num_layers=depth, generator=generator).eval()
    for norm in made.norms:
        norm.var = torch.rand(6, generator=generator) * 3 + 0.1
        norm.mean = torch.randn(6, generator=generator)
        norm.weight.data = torch.randn(6, generator=generator)
    return made


def test_by_hand():
    made = decoder(2)
    with torch.no_grad():
        made.linears[0].weight.copy_(torch.diag(torch.tensor([3.0, 1, 1, 1, 1, 1])))
        made.linears[1].weight.copy_(torch.eye(4, 6))
        made.norms[0].weight.copy_(torch.tensor([1.0, -8, 1, 1, 100, 1]))
        made.norms[0].var = torch.full((6,), 4.0 - made.norms[0].eps)
    # 3 of the first layer; 8 / sqrt(4) of the norm; the last layer does not see the fifth column.
    assert lipschitz_constant(made) == pytest.approx(3 * 8 / 2)


@torch.no_grad()
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_pair_of_rows_changes_by_more(depth):
    made = decoder(depth)
    constant = lipschitz_constant(made)
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 500, 6, generator=generator) * 4
    change = (made(a, None) - made(b, None)).norm(dim=1) / (a - b).norm(dim=1)
    assert float(change.max()) <= constant * (1 + 1e-5)
    # Not a constant that is far too large either
    assert float(change.max()) > 0.1 * constant


def test_of_a_linear_decoder_it_is_the_largest_singular_value():
    made = decoder(1)
    values = np.linalg.svd(made.linears[0].weight.detach().numpy().astype(float))[1]
    assert lipschitz_constant(made) == pytest.approx(values[0])


def test_decoders_that_mix_rows_are_refused():
    with pytest.raises(ConfigError, match=r"known of decoder='mlp' only.*Got GNNDecoder\."):
        lipschitz_constant(GNNDecoder(3, 2, kind="gin"))
