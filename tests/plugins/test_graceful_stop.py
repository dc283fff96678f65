"""One rank is asked, all ranks stop after the same step, at a step from which a run resumes cleanly."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader

from lightning_fastnet.plugins.graceful_stop import GracefulStop, RunStopped
from tests.helpers import run_ranks

BATCHES = 8


class Module(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.validations = 0

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        time.sleep(0.01 * self.trainer.global_rank)
        return self.layer(batch).sum()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validations += 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class After(Callback):
    """Asks for the stop once its rank has done a number of batches."""

    def __init__(self, rank: int, batches: int) -> None:
        self.rank, self.batches, self.requested, self.armed, self.done = rank, batches, False, False, 0

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        self.done += 1
        self.requested = self.requested or (trainer.global_rank == self.rank and self.done >= self.batches)


def fit(rank: int, world_size: int, folder: str, asking: int, batches: int, settings: dict[str, Any]) -> tuple[str, int, int, bool]:
    module, after = Module(), After(asking, batches)
    file = Path(folder) / "last.ckpt"
    trainer = Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=world_size,
        callbacks=[after, GracefulStop(after, file)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        **settings,
    )
    loader = DataLoader(torch.ones(BATCHES, 1))
    try:
        trainer.fit(module, loader, loader)
        ending = "finished"
    except RunStopped:
        ending = "stopped"
    return ending, trainer.global_step, module.validations, file.exists()


SETTINGS: dict[str, Any] = {"num_sanity_val_steps": 0, "log_every_n_steps": 1}


def stopped_step(ranks: int, tmp_path: Path, asking: int, batches: int, **settings: Any) -> int:
    results = run_ranks(fit, ranks, str(tmp_path), asking, batches, {**SETTINGS, **settings})
    assert {(ending, step) for ending, step, _, _ in results} == {("stopped", results[0][1])}, results
    checkpoint = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert checkpoint["global_step"] == results[0][1]
    return int(results[0][1])


@pytest.mark.parametrize("asking", [0, 1, 2])
def test_whichever_of_three_ranks_is_asked_all_stop_together(tmp_path: Path, asking: int) -> None:
    assert stopped_step(3, tmp_path, asking, 3) == 4, "one step later"


def test_a_single_rank_stops_after_this_step(tmp_path: Path) -> None:
    assert stopped_step(1, tmp_path, 0, 3) == 3


def test_not_with_a_line_of_metrics_due(tmp_path: Path) -> None:
    assert stopped_step(1, tmp_path, 0, 3, log_every_n_steps=3) == 4


def test_not_with_gradients_half_accumulated(tmp_path: Path) -> None:
    assert stopped_step(1, tmp_path, 0, 3, accumulate_grad_batches=4) == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_asked_in_an_epochs_last_step_the_epoch_ends_with_its_evaluation(tmp_path: Path, ranks: int) -> None:
    results = run_ranks(fit, ranks, str(tmp_path), 0, BATCHES, SETTINGS)
    assert {result[0] for result in results} == {"stopped"}
    first = 1 if ranks == 2 else 0  # two ranks hear of it one step later, which is the next epoch's first
    assert results[0][1:3] == (BATCHES + first, BATCHES)
    checkpoint = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"] == 1


@pytest.mark.parametrize("ranks", [1, 2])
def test_asked_in_the_last_epochs_last_step_the_run_is_finished(tmp_path: Path, ranks: int) -> None:
    results = run_ranks(fit, ranks, str(tmp_path), 0, 3 * BATCHES, SETTINGS)
    assert {(ending, step, validations) for ending, step, validations, _ in results} == {("finished", 3 * BATCHES, 3 * BATCHES)}


def test_nobody_asks_nothing_happens(tmp_path: Path) -> None:
    results = run_ranks(fit, 2, str(tmp_path), 9, 1, SETTINGS)
    assert {(ending, step, file) for ending, step, _, file in results} == {("finished", 3 * BATCHES, False)}
