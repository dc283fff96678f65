"""RunProgress: a bar for a terminal, a line an epoch for a log file, from rank 0 alone."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from lightning_fastnet import FusedAllReduceStrategy
from lightning_fastnet.report import progress
from lightning_fastnet.report.progress import RunProgress
from tests.helpers import run_ranks

FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")  # a CI's wish for colours would make every stream a terminal
SHOW_CURSOR = "\x1b[?25h"


class Loader:
    """Four batches of 8."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter([(torch.zeros(8, 1), torch.zeros(8))] * 4)


class Scripted(LightningModule):
    """train/loss is 1 in the first epoch, 2 in the second, ...; val/top1 a tenth of it."""

    def __init__(self, clock: "Clock | None" = None, fail_in_epoch: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.clock, self.fail_in_epoch = clock or Clock(), fail_in_epoch

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        if self.current_epoch == self.fail_in_epoch:
            raise ZeroDivisionError
        self.clock.now += 0.5
        loss = self.weight.sum() * 0 + 1 + self.current_epoch
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val/top1", 0.1 * (1 + self.current_epoch), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Clock:
    """A time module that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fit(module: LightningModule, kind: type[Trainer] = Trainer, **settings: Any) -> None:
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary"), False)
    trainer = kind(**{"accelerator": "cpu", "devices": 1, "max_epochs": 3, "callbacks": [RunProgress()]} | quiet | settings)
    trainer.fit(module, Loader(), Loader())


def lines_of(written: str) -> list[str]:
    return [line for line in written.splitlines() if line.startswith("epoch")]


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The callback's clock; a training step takes half a second by it."""
    monkeypatch.setattr(progress, "time", clock := Clock())
    return clock


@pytest.fixture(autouse=True)
def _rich_sees_what_the_test_gives_it(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in FORCING:
        monkeypatch.delenv(name, raising=False)


# ---- where no one watches ------------------------------------------------------------------------------------------------------------


def test_a_log_file_gets_one_line_an_epoch(capsys, clock):
    fit(Scripted(clock))
    written = capsys.readouterr()
    assert lines_of(written.err) == [
        "epoch 1/3  loss 1.000  16 images/s  val/top1 10.0 %",
        "epoch 2/3  loss 2.000  16 images/s  val/top1 20.0 %",
        "epoch 3/3  loss 3.000  16 images/s  val/top1 30.0 %",
    ]
    assert "\x1b" not in written.err
    assert "epoch" not in written.out


def on_a_rank(rank: int, world_size: int) -> str:
    for name in FORCING:
        os.environ.pop(name, None)
    with contextlib.redirect_stderr(io.StringIO()) as written:
        fit(Scripted(), devices=world_size, strategy=FusedAllReduceStrategy(), use_distributed_sampler=False)
    return written.getvalue()


def test_only_rank_0_writes():
    zero, one = run_ranks(on_a_rank, 2)
    assert [line[:10] for line in lines_of(zero)] == ["epoch 1/3 ", "epoch 2/3 ", "epoch 3/3 "]
    assert lines_of(one) == []


def test_the_rate_counts_the_pictures_of_all_ranks(capsys, clock):
    class OneOfFour(Trainer):
        world_size = 4  # type: ignore[assignment]

    fit(Scripted(clock), OneOfFour, max_epochs=1)
    assert re.findall(r"([\d,]+) images/s", capsys.readouterr().err) == ["64"]


# ---- on a terminal -------------------------------------------------------------------------------------------------------------------


def last_shown(written: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()][-1]


def test_a_terminal_ends_with_the_last_epochs_numbers_on_the_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", written := Terminal())
    monkeypatch.setenv("COLUMNS", "150")
    fit(Scripted())
    assert re.fullmatch(r"epoch 3/3 .* loss 3\.000  [\d,]+ images/s  val/top1 30\.0 % 0:00:00 left\s*", last_shown(written.getvalue()))
    assert written.getvalue().rstrip().endswith(SHOW_CURSOR)


def test_an_error_gives_the_terminal_back(monkeypatch):
    monkeypatch.setattr(sys, "stderr", written := Terminal())
    with pytest.raises(ZeroDivisionError):
        fit(Scripted(fail_in_epoch=1))
    assert written.getvalue().rstrip().endswith(SHOW_CURSOR)
