"""GracefulStop: a request on any rank ends the run on all of them after the same step, with a checkpoint to go on from."""

from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override


class RunStopped(Exception):  # noqa: N818  # not an error
    """The run ended early because it was asked to; its checkpoint is written."""


class StopFlag(Protocol):
    """What a rank was asked.

    Attributes:
        requested: to stop.
        armed: set by :class:`GracefulStop` as soon as it listens; before, there is nothing to save.
    """

    requested: bool
    armed: bool


class GracefulStop(Callback):
    """Asks all ranks after each step whether one was told to stop; if so, saves a checkpoint and raises :class:`RunStopped` everywhere.

    The question is an asynchronous all-reduce of one number between the hosts (gloo, also beside NCCL: no device waits), read one step
    later. It stops one step later still where the step would not resume cleanly: with gradients half accumulated, or with a line of
    metrics due (where every step has one, that step's is lost); after an epoch's last step the epoch's evaluation and end come first.

    Args:
        flag: read on each rank after each step.
        checkpoint: the file to write.

    Raises:
        RunStopped: out of ``Trainer.fit``.
    """

    def __init__(self, flag: StopFlag, checkpoint: str | Path) -> None:
        self._flag, self._checkpoint = flag, Path(checkpoint)
        self._stopping = False
        self._group: Any = None
        self._question: tuple[torch.Tensor, dist.Work] | None = None

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stopping, self._question = False, None
        self._group = dist.new_group(backend="gloo") if trainer.world_size > 1 else None
        self._flag.armed = True

    @override
    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._stopping = self._stopping or self._agreed()
        if self._stopping and self._resumes_cleanly(trainer, batch_idx):
            trainer.save_checkpoint(self._checkpoint)
            raise RunStopped

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._stopping:
            trainer.save_checkpoint(self._checkpoint)

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._stopping:
            raise RunStopped

    def _agreed(self) -> bool:
        if self._group is None:
            return self._flag.requested
        stop = False
        if self._question is not None:
            answer, work = self._question
            work.wait()
            stop = bool(answer.item())
        asked = torch.tensor([float(self._flag.requested)])
        work = dist.all_reduce(asked, group=self._group, async_op=True)
        assert work is not None
        self._question = asked, work
        return stop

    @staticmethod
    def _resumes_cleanly(trainer: Trainer, batch_idx: int) -> bool:
        last = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        accumulating = (batch_idx + 1) % trainer.accumulate_grad_batches != 0
        interval = trainer.log_every_n_steps  # type: ignore[attr-defined]
        line_due = interval > 1 and trainer.global_step % interval == 0
        return not (last or accumulating or line_due)
