"""What the command's tests put into a config: a network with dropout, and a hand on the power switch."""

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn


class DropoutNet(nn.Sequential):
    """28 x 28 grey pictures; its dropout draws from the rank's own generator."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, num_classes))


class SignalAt(Callback):
    """Sends a signal to the command after an optimizer step.

    ``SIGNAL_AT=<step>:<signal>`` in the environment says when, so that the config is the same with and without.
    """

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        step, _, name = os.environ.get("SIGNAL_AT", "-1:SIGINT").partition(":")
        if trainer.global_step == int(step) and trainer.is_global_zero:
            os.kill(os.getppid() if trainer.world_size > 1 else os.getpid(), getattr(signal, name))


class HangAt(Callback):
    """The last rank stops for ever outside Python, as in a collective; the file ``hanging`` in the run's folder says so."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == self.step and trainer.global_rank == trainer.world_size - 1:
            (Path(trainer.default_root_dir) / "hanging").touch()
            while True:
                ctypes.CDLL(None).sleep(600)
