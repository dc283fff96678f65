"""The ratio against the formula written out in Python floats."""

import math

import pytest
import torch

from lightning_fastnet.optim.trust_ratio import trust_ratio


@pytest.mark.parametrize(("weight", "gradient"), [(3.0, 0.5), (1e-4, 20.0), (70000.0, 1e-8)])
@pytest.mark.parametrize("decay", [0.0, 1e-4])
def test_formula(weight: float, gradient: float, decay: float) -> None:
    got = trust_ratio(torch.tensor(weight), torch.tensor(gradient), trust_coefficient=0.02, weight_decay=decay, eps=1e-9)
    assert math.isclose(got.item(), 0.02 * weight / (gradient + decay * weight + 1e-9), rel_tol=1e-6)


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_is_one_where_a_norm_is_zero(weight: float, gradient: float) -> None:
    assert trust_ratio(torch.tensor(weight), torch.tensor(gradient), trust_coefficient=1e-3, weight_decay=1e-4, eps=0.0).item() == 1.0
