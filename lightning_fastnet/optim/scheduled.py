"""One place that builds an optimizer together with its learning-rate curve."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from lightning_fastnet.optim.param_groups import param_groups
from lightning_fastnet.optim.schedules import AppliedStepsLR, warmup_then_decay


def scheduled(
    parameters: nn.Module | list[dict[str, Any]],
    optimizer_class: Callable[..., Optimizer],
    *,
    lr: float,
    warmup_epochs: float,
    decay: str,
    epochs: float,
    steps_per_epoch: int,
    weight_decay: float = 0.0,
    warmup_start: float | None = None,
    end_lr: float = 0.0,
    power: float = 2.0,
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
    **settings: Any,
) -> tuple[Optimizer, AppliedStepsLR]:
    """An optimizer, and the scheduler to step after each of its steps.

    Args:
        parameters: a module, whose biases and norm layers get no weight decay (and no adaptation, where the optimizer is LARS); or
            groups, taken as they are.
        optimizer_class: any torch optimizer class that takes groups of named parameters.
        lr: peak learning rate.
        warmup_epochs, decay, warmup_start, end_lr, power, milestones, gamma: the curve, see
            :func:`~lightning_fastnet.optim.schedules.warmup_then_decay`.
        epochs: length of the run; need not be whole.
        **settings: further arguments of the optimizer.
    """
    groups = param_groups(parameters, weight_decay) if isinstance(parameters, nn.Module) else parameters
    optimizer = optimizer_class(groups, lr=lr, weight_decay=weight_decay, **settings)
    scheduler = warmup_then_decay(
        optimizer,
        warmup_epochs=warmup_epochs,
        total_epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        decay=decay,
        warmup_start=warmup_start,
        end_lr=end_lr,
        power=power,
        milestones=milestones,
        gamma=gamma,
    )
    return optimizer, scheduler
