"""The one place that builds optimizer and curve gives what building both by hand gives."""

import torch
from torch import nn

from lightning_fastnet.optim.lars import LARS
from lightning_fastnet.optim.param_groups import param_groups
from lightning_fastnet.optim.scheduled import scheduled
from lightning_fastnet.optim.schedules import warmup_then_decay


def weights_after(module: nn.Module, optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler) -> torch.Tensor:
    for _ in range(6):
        optimizer.zero_grad()
        module(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def test_equals_lars_and_curve_by_hand() -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    built = scheduled(one, LARS, lr=0.5, warmup_epochs=1, decay="linear", epochs=3, steps_per_epoch=2, weight_decay=0.01, momentum=0.8)
    optimizer = LARS(param_groups(other, 0.01), lr=0.5, momentum=0.8)
    by_hand = optimizer, warmup_then_decay(optimizer, warmup_epochs=1, total_epochs=3, steps_per_epoch=2, decay="linear")
    assert torch.equal(weights_after(one, *built), weights_after(other, *by_hand))


def test_any_torch_optimizer_gets_no_decay_on_biases() -> None:
    optimizer, _ = scheduled(
        nn.Linear(3, 2), torch.optim.SGD, lr=0.5, warmup_epochs=0, decay="constant", epochs=1, steps_per_epoch=1, weight_decay=0.01
    )
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]
