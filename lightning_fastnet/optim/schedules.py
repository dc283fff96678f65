"""Learning-rate curves: warm-up, then decay. Given in epochs, moved on once an applied optimizer step."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lightning_fastnet.errors import UserError

DECAYS = ("constant", "linear", "poly2", "poly", "cosine", "steps")


def linear_scaling_rule(lr: float, batch_size: int, global_batch_size: int) -> float:
    """The learning rate for ``global_batch_size``, where ``lr`` was right for ``batch_size``: ``lr * global_batch_size / batch_size``.

    Reference:
        Goyal et al., arXiv 1706.02677. It holds for plain SGD up to about 8,192 pictures of ImageNet, and needs a warm-up.
    """
    if batch_size < 1 or global_batch_size < 1:
        raise UserError(f"batch_size={batch_size} and global_batch_size={global_batch_size} must be at least 1.")
    return lr * global_batch_size / batch_size


def learning_rate(
    step: int,
    *,
    peak: float,
    warmup_steps: int,
    total_steps: int,
    decay: str,
    warmup_start: float | None = None,
    end_lr: float = 0.0,
    power: float = 2.0,
    milestones: Sequence[int] = (),
    gamma: float = 0.1,
) -> float:
    r"""The learning rate of optimizer step ``step``, counted from 0.

    Warm-up is linear from ``warmup_start`` in step 0 (None: ``peak / (warmup_steps + 1)``) up to ``peak`` in step ``warmup_steps``.
    Then, with :math:`s` the done share of the steps from there to ``total_steps``, the rate is ``end_lr + (peak - end_lr) f(s)``:

    ==================  ==========================================
    ``constant``        ``peak``; no ``end_lr``
    ``linear``          :math:`f = 1 - s`
    ``poly2``           :math:`f = (1 - s)^2`
    ``poly``            :math:`f = (1 - s)^p`, :math:`p` = ``power``
    ``cosine``          :math:`f = (1 + \cos \pi s) / 2`
    ``steps``           ``peak * gamma**(milestones passed)``; no ``end_lr``
    ==================  ==========================================

    Past the end the last value stays.

    Reference:
        Goyal et al., arXiv 1706.02677 (linear warm-up); You et al., arXiv 1708.03888 (polynomial decay of power 2).
    """
    if step < warmup_steps:
        if warmup_start is None:
            return peak * (step + 1) / (warmup_steps + 1)
        return warmup_start + (peak - warmup_start) * step / warmup_steps
    if decay == "constant":
        return peak
    if decay == "steps":
        return float(peak * gamma ** sum(step >= milestone for milestone in milestones))
    left = 1.0 - min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
    if decay == "cosine":
        shape = (1.0 + math.cos(math.pi * (1.0 - left))) / 2.0
    else:
        shape = left ** {"linear": 1.0, "poly2": 2.0, "poly": power}[decay]
    return float(end_lr + (peak - end_lr) * shape)


class AppliedStepsLR(LambdaLR):
    """torch's ``LambdaLR``, moved on only by optimizer steps that were applied.

    A loss scaler that finds an overflow leaves ``optimizer.step()`` out, while Lightning steps the scheduler all the same: the curve
    would end before the run. Here it waits.

    Attributes:
        skipped_steps: how often it waited.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: list[Callable[[int], float]]) -> None:
        self.skipped_steps = 0
        self._applied = True
        super().__init__(optimizer, lr_lambda)
        optimizer.register_step_post_hook(self._note)

    def _note(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._applied = True

    def step(self, epoch: int | None = None) -> None:
        """Call it after each ``optimizer.step()``, applied or left out."""
        if self._applied:
            super().step(epoch)
        else:
            self.skipped_steps += 1
        self._applied = False


def warmup_then_decay(
    optimizer: Optimizer,
    *,
    warmup_epochs: float,
    total_epochs: float,
    steps_per_epoch: int,
    decay: str = "poly2",
    warmup_start: float | None = None,
    end_lr: float = 0.0,
    power: float = 2.0,
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
) -> AppliedStepsLR:
    """A scheduler for ``interval="step"`` that follows :func:`learning_rate`: the same curve over epochs whatever the steps in one.

    Args:
        optimizer: its groups' ``lr`` is the peak of each.
        warmup_epochs, total_epochs: need not be whole.
        steps_per_epoch: optimizer steps in an epoch (batches of a rank divided by the accumulation).
        decay: one of :data:`DECAYS`.
        warmup_start, end_lr: learning rates.
        milestones: for ``steps``, in epochs.

    Raises:
        UserError: an unknown decay, a warm-up longer than the run, or values that make no curve.
    """
    if decay not in DECAYS:
        raise UserError(f"decay={decay!r} is unknown: choose one of {', '.join(DECAYS)}.")
    if not 0 <= warmup_epochs <= total_epochs:
        raise UserError(f"warmup_epochs={warmup_epochs} does not fit a run of {total_epochs:g} epochs: set it between 0 and that.")
    for name, value in (("warmup_start", warmup_start or 0.0), ("end_lr", end_lr), ("power", power), ("gamma", gamma)):
        if not 0 <= value < math.inf:
            raise UserError(f"{name}={value} must be a number of at least 0.")
    if (decay == "steps") != bool(milestones):
        raise UserError("decay='steps' goes with milestones=[EPOCH, ...], and the other decays go without: give both or neither.")
    if any(not warmup_epochs <= milestone <= total_epochs for milestone in milestones):
        raise UserError(f"milestones={list(milestones)} must lie between the warm-up's end and the run's, {total_epochs:g} epochs.")
    curve = partial(
        learning_rate,
        warmup_steps=round(warmup_epochs * steps_per_epoch),
        total_steps=round(total_epochs * steps_per_epoch),
        decay=decay,
        warmup_start=warmup_start,
        end_lr=end_lr,
        power=power,
        milestones=[round(milestone * steps_per_epoch) for milestone in milestones],
        gamma=gamma,
    )

    def factor(peak: float) -> Callable[[int], float]:
        return lambda step: curve(step, peak=peak) / peak if peak else 0.0

    return AppliedStepsLR(optimizer, [factor(float(group["lr"])) for group in optimizer.param_groups])
