"""Learning-rate curves: warm-up, then decay. Given in epochs, stepped once an optimizer step."""

from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lightning_fastnet.errors import UserError

DECAYS: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "poly2": lambda done: (1.0 - done) ** 2,
}
"""The factor on the peak rate, as a function of the share of the decay that is done (0 to 1)."""


def warmup_factor(step: int, *, warmup_steps: int, total_steps: int, decay: str) -> float:
    """The factor on the peak learning rate for optimizer step ``step``, counted from 0.

    Linear from ``1 / (warmup_steps + 1)`` in step 0 up to 1 in step ``warmup_steps``, then :data:`DECAYS`, which ends at
    ``total_steps``; past the end the last value stays.

    Reference:
        Goyal et al., arXiv 1706.02677 (linear warm-up); You et al., arXiv 1708.03888 (polynomial decay of power 2).
    """
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    return DECAYS[decay](min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps)))


def warmup_then_decay(
    optimizer: Optimizer, *, warmup_epochs: float, total_epochs: float, steps_per_epoch: int, decay: str = "poly2"
) -> LambdaLR:
    """A scheduler for ``interval="step"``: warm-up over ``warmup_epochs``, then ``decay`` until ``total_epochs``.

    Args:
        optimizer: its groups' ``lr`` is the peak rate.
        steps_per_epoch: optimizer steps in an epoch (batches of a rank divided by the accumulation).
        decay: a key of :data:`DECAYS`.

    Raises:
        UserError: an unknown decay, or a warm-up longer than the run.
    """
    if decay not in DECAYS:
        raise UserError(f"decay={decay!r} is unknown: choose one of {', '.join(DECAYS)}.")
    if not 0 <= warmup_epochs <= total_epochs:
        raise UserError(f"warmup_epochs={warmup_epochs} does not fit a run of {total_epochs:g} epochs: set it between 0 and that.")
    warmup_steps = round(warmup_epochs * steps_per_epoch)
    total_steps = round(total_epochs * steps_per_epoch)

    def factor(step: int) -> float:
        return warmup_factor(step, warmup_steps=warmup_steps, total_steps=total_steps, decay=decay)

    return LambdaLR(optimizer, factor)
