"""RunMetrics: what a run reached and how fast, written to its folder as one flat JSON object."""

import json
import math
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

_KEPT = ("val/top1", "val/loss", "test/top1", "test/loss")


class RunMetrics(Callback):
    """Measures throughput and the time to the target, and gathers the last value of each evaluation metric.

    ``train/images_per_second`` is the pictures of all ranks over the time from one batch's end to the next, waiting for data included;
    the first steps of each epoch and validation are left out.

    Args:
        target: the value of ``monitor`` that counts as reached; None: there is none.
        monitor: name of a logged metric.
        started: ``time.time()`` when the command began; ``time/*`` counts from there.
    """

    def __init__(self, target: float | None = None, monitor: str = "val/top1", started: float | None = None) -> None:
        self.target, self.monitor = target, monitor
        self.started = time.time() if started is None else started
        self.seconds_to_target: float | None = None
        self.values: dict[str, float] = {}
        self._last_end: float | None = None
        self._seconds, self._pictures = 0.0, 0

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last_end = None

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last_end = None

    @override
    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        now = time.perf_counter()
        if self._last_end is not None:
            self._seconds += now - self._last_end
            self._pictures += len(batch[-1]) * trainer.world_size
        self._last_end = now

    @property
    def images_per_second(self) -> float | None:
        """Mean over the fit so far; None before two batches of an epoch."""
        return self._pictures / self._seconds if self._seconds else None

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        self._gather(trainer)
        value = self.values.get(self.monitor)
        if self.target is not None and value is not None and value >= self.target and self.seconds_to_target is None:
            self.seconds_to_target = time.time() - self.started

    @override
    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._gather(trainer)

    @override
    def state_dict(self) -> dict[str, Any]:
        """What a resumed run counts on from."""
        return {
            "elapsed_seconds": time.time() - self.started,
            "seconds_to_target": self.seconds_to_target,
            "values": dict(self.values),
            "train_seconds": self._seconds,
            "train_pictures": self._pictures,
        }

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.started -= state_dict["elapsed_seconds"]
        self.seconds_to_target = state_dict["seconds_to_target"]
        self.values = dict(state_dict["values"])
        self._seconds, self._pictures = state_dict["train_seconds"], state_dict["train_pictures"]

    def _gather(self, trainer: Trainer) -> None:
        self.values |= {name: float(value) for name, value in trainer.callback_metrics.items() if name in {*_KEPT, self.monitor}}

    def as_dict(self, trainer: Trainer) -> dict[str, float | int | None]:
        """The flat object that ``metrics.json`` holds; null where something was not measured or not reached."""
        return {
            **{name: self.values.get(name) for name in _KEPT},
            "train/images_per_second": self.images_per_second,
            "time/total_seconds": time.time() - self.started,
            "time/to_target_seconds": self.seconds_to_target,
            "trainer/global_step": trainer.global_step,
            "optimizer/skipped_steps": sum(getattr(one.scheduler, "skipped_steps", 0) for one in trainer.lr_scheduler_configs),
            "trainer/world_size": trainer.world_size,
        }


def write_metrics(file: Path, metrics: dict[str, Any]) -> None:
    """Writes beside and renames, so that a reader never sees half a file. NaN and infinity, which JSON lacks, become null."""
    beside = file.with_suffix(".tmp")
    finite = {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in metrics.items()}
    beside.write_text(json.dumps(finite, indent=2) + "\n")
    beside.replace(file)
