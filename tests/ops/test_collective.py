"""Sums over processes: the identity with one, and refusals."""

from __future__ import annotations

import pytest
import torch

from graphlatent.errors import ConfigError
from graphlatent.methods.base import Term, over_processes
from graphlatent.ops import collective


def test_with_one_process_nothing_is_changed_or_copied():
    tensor = torch.ones(3, requires_grad=True)
    assert collective.current() is None
    assert collective.all_sum(tensor) is tensor
    assert collective.gathered_rows(tensor)[0] is tensor
    terms = {"a": Term(tensor.sum(), 3.0)}
    assert over_processes(terms) is terms
    assert (collective.rank(), collective.world_size()) == (0, 1)
    assert collective.first_only(lambda: (1, 2)) == (1, 2)
    assert collective.gathered_json("x") == ["x"]
    collective.barrier()


@pytest.mark.parametrize("flag", [False, True])
def test_with_one_process_gradients_stay_as_they_are(flag):
    parameter = torch.nn.Parameter(torch.ones(2))
    gradient = parameter.grad = torch.tensor([1.0, 2.0])
    assert collective.average_gradients([parameter], flag) is flag
    assert parameter.grad is gradient


def test_a_process_group_is_needed():
    message = (
        "data_parallel needs a process group. Call torch.distributed.init_process_group first, in a"
        " program that torchrun starts, or leave data_parallel out."
    )
    with pytest.raises(ConfigError) as error, collective.data_parallel():
        pass
    assert str(error.value) == message
