"""One place that builds an optimizer together with its learning-rate curve."""

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lightning_fastnet.optim.param_groups import param_groups
from lightning_fastnet.optim.schedules import warmup_then_decay


def scheduled(
    module: nn.Module,
    optimizer_class: Callable[..., Optimizer],
    *,
    lr: float,
    warmup_epochs: float,
    decay: str,
    epochs: float,
    steps_per_epoch: int,
    weight_decay: float = 0.0,
    **settings: Any,
) -> tuple[Optimizer, LRScheduler]:
    """An optimizer over a module's parameters, and the scheduler to step after each of its steps.

    Biases and norm layers get no weight decay (and no adaptation, where the optimizer is LARS).

    Args:
        optimizer_class: any torch optimizer class that takes groups of named parameters.
        lr: peak learning rate.
        warmup_epochs, decay: see :func:`~lightning_fastnet.optim.schedules.warmup_then_decay`.
        epochs: length of the run; need not be whole.
        **settings: further arguments of the optimizer.
    """
    optimizer = optimizer_class(param_groups(module, weight_decay), lr=lr, weight_decay=weight_decay, **settings)
    scheduler = warmup_then_decay(optimizer, warmup_epochs=warmup_epochs, total_epochs=epochs, steps_per_epoch=steps_per_epoch, decay=decay)
    return optimizer, scheduler
