"""What StepProfile costs a step: LeNet at batch 64 on one rank, fits with and without it in alternation.

python -m benchmarks.step_profile
"""

import statistics
import time
from itertools import pairwise
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.machine import machine_line
from lightning_fastnet import StepProfile
from lightning_fastnet.models.networks import LeNet

SAMPLES, STEPS, SKIPPED = 20, 60, 10  # fits a side; timed steps a fit; first steps of a fit that are not


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = LeNet().to(memory_format=torch.channels_last)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Stopwatch(pl.Callback):
    """Median time from one batch's end to the next."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.ends.append(time.perf_counter())

    def milliseconds(self) -> float:
        ends = self.ends[SKIPPED:]
        return 1e3 * statistics.median(later - earlier for earlier, later in pairwise(ends))


def fit(profiled: bool) -> float:
    watch = Stopwatch()
    trainer = pl.Trainer(
        max_steps=STEPS + SKIPPED,
        accelerator="auto",
        devices=1,
        callbacks=[watch, *([StepProfile(print_summary=False)] if profiled else [])],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    rows = 64 * (STEPS + SKIPPED)
    data = TensorDataset(torch.randn(rows, 1, 28, 28), torch.randint(10, (rows,)))
    trainer.fit(Module(), DataLoader(data, batch_size=64))
    return watch.milliseconds()


def main() -> None:
    torch.set_num_threads(1)
    fit(True)
    pairs = [(fit(True), fit(False)) for _ in range(SAMPLES)]
    ratios = [on / off for on, off in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    step = statistics.median(off for _, off in pairs)
    microseconds = 1e3 * statistics.median(on - off for on, off in pairs)
    print(f"| step with StepProfile / without (median {step:.2f} ms, {SAMPLES} fits a side) | {middle:.4f} [{low:.4f}, {high:.4f}] |")
    print(f"difference of a step: {microseconds:.0f} microseconds (median); {machine_line()}")


if __name__ == "__main__":
    main()
