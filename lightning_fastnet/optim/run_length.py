"""How long a Trainer's run is, in the units of a learning-rate curve."""

import math
from typing import Any, NamedTuple

from lightning_fastnet.errors import UserError


class RunLength(NamedTuple):
    """Epochs (need not be whole), and optimizer steps in one."""

    epochs: float
    steps_per_epoch: int


def run_length(trainer: Any) -> RunLength:
    """For ``configure_optimizers``: counts the batches, which Lightning does later otherwise.

    Args:
        trainer: a ``lightning.pytorch.Trainer`` in ``fit``.

    Raises:
        UserError: the run has no end, or the batches cannot be counted.
    """
    trainer.fit_loop.setup_data()
    total_steps = trainer.estimated_stepping_batches
    if total_steps == math.inf:
        raise UserError("The learning-rate curve needs the run's length: give the Trainer max_epochs or max_steps.")
    if trainer.num_training_batches == math.inf:
        raise UserError("There are no training batches to count: give a loader with a length, and trainer.limit_train_batches above 0.")
    steps_per_epoch = max(1, math.ceil(trainer.num_training_batches / trainer.accumulate_grad_batches))
    return RunLength(total_steps / steps_per_epoch, steps_per_epoch)
