"""RunProgress: one line that says how far the run is; plain lines, one an epoch, where no one watches."""

import sys
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from typing_extensions import override

_REFRESH_SECONDS = 0.2  # reading the loss waits for the device, so not every step


class RunProgress(ProgressBar):
    """Epoch, loss, images/s and time left of the whole run, on rank 0's standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled = True
        self._console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._done, self._in_epoch = 0, 0
        self._refreshed, self._epoch_began = 0.0, 0.0
        self._rate = 0.0

    @override
    def disable(self) -> None:
        self._enabled = False  # Lightning's way to silence every rank but 0

    @override
    def enable(self) -> None:
        self._enabled = True

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._done = trainer.global_step * trainer.accumulate_grad_batches  # after a resume
        self._begin_epoch()  # a run resumed within an epoch is not told of its start
        if not self._enabled or not self._console.is_terminal:
            return
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[rate]:,.0f} images/s  val/top1 {task.fields[top1]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
        )
        total = float(trainer.estimated_stepping_batches) * trainer.accumulate_grad_batches
        self._task = self._bar.add_task("train", total=total, epoch=self._epoch(trainer), loss=float("nan"), rate=0.0, top1="-")
        self._bar.start()

    @override
    def on_train_epoch_start(self, trainer: Trainer, *_: Any) -> None:
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._epoch_began, self._in_epoch = time.perf_counter(), 0

    @override
    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._done += 1
        self._in_epoch += 1
        now = time.perf_counter()
        last = batch_idx + 1 == self.total_train_batches
        if last:
            self._rate = self._in_epoch * len(batch[-1]) * trainer.world_size / (now - self._epoch_began)
        if self._bar is None or (not last and now - self._refreshed < _REFRESH_SECONDS):
            return
        self._refreshed = now
        rate = self._in_epoch * len(batch[-1]) * trainer.world_size / (now - self._epoch_began)
        self._bar.update(self._task, completed=self._done, epoch=self._epoch(trainer), loss=float(outputs["loss"]), rate=rate)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the epoch's validation."""
        top1 = trainer.callback_metrics.get("val/top1")
        reached = "-" if top1 is None else f"{100 * float(top1):.1f} %"
        if self._bar is not None:
            self._bar.update(self._task, top1=reached)
        elif self._enabled and not self._console.is_terminal:
            loss = float(trainer.callback_metrics.get("train/loss", float("nan")))
            line = f"epoch {self._epoch(trainer)}  loss {loss:.3f}  {self._rate:,.0f} images/s  val/top1 {reached}"
            print(line, file=sys.stderr, flush=True)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop()

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()

    @override
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @staticmethod
    def _epoch(trainer: Trainer) -> str:
        return f"{trainer.current_epoch + 1}/{trainer.max_epochs}"
