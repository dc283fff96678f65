"""LARSWarmup: the SGD of a module that knows nothing of it becomes LARS with warm-up and decay."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch.optim import Optimizer
from typing_extensions import override

from lightning_fastnet.errors import UserError, require_lightning_trainer
from lightning_fastnet.optim.lars import LARS
from lightning_fastnet.optim.param_groups import regrouped
from lightning_fastnet.optim.run_length import run_length
from lightning_fastnet.optim.scheduled import scheduled


class LARSWarmup(Callback):
    """Replaces the ``torch.optim.SGD`` that a module's ``configure_optimizers`` returns by :class:`~lightning_fastnet.LARS`.

    The module is not touched: its groups, their weight decay, momentum and Nesterov flag stay; biases and norm layers are left out of
    adaptation and weight decay. The learning rate becomes ``peak_lr`` (of groups with different rates: in the same proportions, where
    the optimizer's own default is ``peak_lr``), on a curve that is moved on after each applied optimizer step.

    Args:
        peak_lr: after the warm-up.
        warmup_epochs: of linear warm-up.
        decay: see :func:`~lightning_fastnet.optim.schedules.warmup_then_decay`.
        trust_coefficient: of LARS.
        replace_scheduler: take the place of a scheduler that the module brings; False: refuse it.
        exclude: see :func:`~lightning_fastnet.optim.param_groups.is_excluded`.
        **settings: further arguments of LARS (``eps``, ``clip``) or of the curve (``warmup_start``, ``end_lr``, ``power``, ...).

    Raises:
        UserError: in ``fit``, where the module does not return one SGD, brings its own scheduler, or optimizes manually.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(max_epochs=90, callbacks=[LARSWarmup(peak_lr=10.0, warmup_epochs=5)], logger=False)
    """

    def __init__(
        self,
        peak_lr: float,
        warmup_epochs: float = 5,
        decay: str = "poly2",
        trust_coefficient: float = 1e-3,
        replace_scheduler: bool = False,
        exclude: Iterable[str] = ("bias", "norm"),
        **settings: Any,
    ) -> None:
        self.peak_lr, self.warmup_epochs, self.decay = peak_lr, warmup_epochs, decay
        self.trust_coefficient, self.replace_scheduler, self.exclude = trust_coefficient, replace_scheduler, exclude
        self.settings = settings

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """The first hook of all: the later ones come when the precision plugin has the optimizer already."""
        if stage != "fit":
            return
        require_lightning_trainer(trainer, type(self).__name__)
        if not pl_module.automatic_optimization:
            raise UserError("LARSWarmup needs automatic optimization, where Lightning steps the schedule: build LARS in the module.")
        if is_overridden("optimizer_step", pl_module):
            rank_zero_warn("The module overrides optimizer_step; if it sets the learning rate there, LARSWarmup's curve is lost.")
        own = pl_module.configure_optimizers
        pl_module.configure_optimizers = lambda: self._configure(pl_module, own)  # type: ignore[method-assign]

    @override
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            pl_module.__dict__.pop("configure_optimizers", None)

    def _configure(self, module: LightningModule, own: Callable[[], Any]) -> Any:
        optimizer, has_scheduler = _the_sgd(own())
        if has_scheduler and not self.replace_scheduler:
            raise UserError("The module brings a learning-rate scheduler of its own: remove it, or use LARSWarmup(replace_scheduler=True).")
        groups = regrouped(module, optimizer.param_groups, self.exclude)
        rates = [float(group.get("initial_lr", group["lr"])) for group in groups]  # a scheduler may have changed them already
        one_rate = rates[0] if len(set(rates)) == 1 else float(optimizer.defaults["lr"])
        for group, rate in zip(groups, rates, strict=True):
            _refuse_what_lars_lacks(group)
            group["lr"] = self.peak_lr * (rate / one_rate if one_rate else 1.0)
            for name in group.keys() - _KEPT:
                del group[name]
        lars, scheduler = scheduled(
            groups,
            LARS,
            lr=self.peak_lr,
            warmup_epochs=self.warmup_epochs,
            decay=self.decay,
            trust_coefficient=self.trust_coefficient,
            exclude=self.exclude,
            **run_length(module.trainer)._asdict(),
            **self.settings,
        )
        return {"optimizer": lars, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


_KEPT = {"params", "excluded", "lr", "momentum", "weight_decay", "nesterov"}


def _the_sgd(returned: Any) -> tuple[Optimizer, bool]:
    """The one SGD among what ``configure_optimizers`` may return, and whether a scheduler came with it."""
    has_scheduler = False
    if isinstance(returned, (list, tuple)) and len(returned) == 2 and isinstance(returned[0], (list, tuple)):
        returned, schedulers = returned
        has_scheduler = bool(schedulers)
    several = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if len(several) != 1:
        raise UserError(f"LARSWarmup replaces one optimizer, and the module returns {len(several)}: build LARS in the module instead.")
    (only,) = several
    if isinstance(only, dict):
        has_scheduler = has_scheduler or only.get("lr_scheduler") is not None
        only = only.get("optimizer")
    if not isinstance(only, torch.optim.SGD):
        what = "no optimizer" if only is None else f"a {type(only).__name__}"
        raise UserError(f"LARSWarmup turns torch.optim.SGD into LARS, and the module returns {what}: return SGD, or leave LARSWarmup out.")
    return only, has_scheduler


def _refuse_what_lars_lacks(group: dict[str, Any]) -> None:
    for name in ("dampening", "maximize", "differentiable"):
        if group.get(name):
            raise UserError(f"The module's SGD has {name}={group[name]}, which LARS does not have: leave it out.")
