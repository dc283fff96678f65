"""Which parameters are excluded, on layers chosen to mislead."""

import torch
from torch import nn

from lightning_fastnet.optim.param_groups import is_excluded, param_groups


class Misleading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.batch = nn.BatchNorm2d(4)
        self.layer = nn.LayerNorm([4, 5, 5])  # a norm whose weight has three dimensions
        self.scale = nn.PReLU(4)  # one dimension and no norm
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.tied = self.conv


def names(groups: list[dict[str, object]], excluded: bool) -> list[str]:
    return [name for group in groups if group["excluded"] is excluded for name, _ in group["params"]]  # type: ignore[attr-defined]


def test_norm_layers_are_known_by_their_type() -> None:
    groups = param_groups(Misleading(), weight_decay=0.1)
    assert names(groups, excluded=False) == ["conv.weight", "scale.weight"]
    assert names(groups, excluded=True) == ["conv.bias", "batch.weight", "batch.bias", "layer.weight", "layer.bias"]
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]


def test_names_are_excluded_by_pattern() -> None:
    groups = param_groups(Misleading(), exclude=("conv",))
    assert names(groups, excluded=True) == ["conv.weight", "conv.bias"]


def test_without_parameters_of_a_kind_there_is_no_empty_group() -> None:
    assert len(param_groups(nn.Linear(2, 2, bias=False))) == 1


def test_a_parameter_without_name_is_judged_by_its_shape() -> None:
    assert is_excluded(None, torch.zeros(4), ("bias", "norm"))
    assert not is_excluded(None, torch.zeros(4, 4), ("bias", "norm"))
    assert not is_excluded(None, torch.zeros(4), ())
