"""What StepProfile costs a step.

    python -m benchmarks.step_profile

Its cost is a fixed time, so it is measured where little else happens: fits of a module with one weight, with and without it in
alternation. The share is that time over the step of LeNet at batch 64 (one rank, one thread), whose own noise is far above it.
"""

import statistics
import time
from itertools import pairwise
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from benchmarks.machine import machine_line
from lightning_fastnet import StepProfile
from lightning_fastnet.models.networks import LeNet

SAMPLES, SKIPPED = 20, 20  # fits a side; first steps of a fit that are not timed


class Module(pl.LightningModule):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return self.network(batch).square().mean()  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-6)


class SameBatch:
    """A loader that costs nothing."""

    def __init__(self, batch: Tensor, length: int) -> None:
        self.batch, self.length = batch, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Any:
        return iter([self.batch] * self.length)


class Stopwatch(pl.Callback):
    """Median time from one batch's end to the next, in microseconds."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.ends.append(time.perf_counter())

    def microseconds(self) -> float:
        return 1e6 * statistics.median(later - earlier for earlier, later in pairwise(self.ends[SKIPPED:]))


def fit(network: nn.Module, batch: Tensor, steps: int, profiled: bool) -> float:
    watch = Stopwatch()
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="auto",
        devices=1,
        callbacks=[watch, *([StepProfile(print_summary=False)] if profiled else [])],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(network), SameBatch(batch, steps + SKIPPED))
    return watch.microseconds()


def main() -> None:
    torch.set_num_threads(1)
    weight, ones = nn.Linear(1, 1), torch.ones(1, 1)
    fit(weight, ones, 100, True)
    costs = [fit(weight, ones, 1000, True) - fit(weight, ones, 1000, False) for _ in range(SAMPLES)]
    low, middle, high = statistics.quantiles(costs, n=4)
    pictures = torch.randn(64, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    step = fit(LeNet().to(memory_format=torch.channels_last), pictures, 200, False)
    print("| StepProfile's cost a step, microseconds: median [quartiles] | share of LeNet's step at batch 64 |")
    print("|---|---|")
    print(f"| {middle:.0f} [{low:.0f}, {high:.0f}] | {100 * middle / step:.2f} % of {step / 1000:.1f} ms |")
    print(f"\n{SAMPLES} fits a side; {machine_line()}.")


if __name__ == "__main__":
    main()
