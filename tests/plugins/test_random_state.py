"""Every generator of every rank comes back; each rank has its own."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from lightning_fastnet.plugins.random_state import RandomState, random_state, set_random_state
from tests.helpers import run_ranks


def draw() -> list[float]:
    return [random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.randn()), float(torch.rand(()))]


def test_the_state_survives_a_file_and_gives_the_same_numbers(tmp_path: Path) -> None:
    random.gauss(0, 1), np.random.randn()  # so that both keep a second normal number back
    torch.save(random_state(torch.device("cpu")), tmp_path / "state")
    wanted = draw()
    set_random_state(torch.load(tmp_path / "state", weights_only=True), torch.device("cpu"))
    assert draw() == wanted


class Drawing(LightningModule):
    """Draws in every step; keeps what it drew."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.drawn: list[list[float]] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.drawn.append([*draw(), float(batch)])
        return self.weight * 1.0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(folder: Path, ranks: int, epochs: int, *callbacks: Callback) -> Trainer:
    return Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=ranks,
        callbacks=[RandomState(seed=3), ModelCheckpoint(folder, "{epoch}", save_top_k=-1, save_on_train_epoch_end=True), *callbacks],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


def fit(rank: int, world_size: int, folder: str, epochs: int, checkpoint: str | None) -> list[list[float]]:
    module = Drawing()
    loader = torch.utils.data.DataLoader(torch.arange(4.0), shuffle=True)
    trainer(Path(folder), world_size, epochs).fit(module, loader, ckpt_path=checkpoint, weights_only=True)
    return module.drawn


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_resumed_run_draws_what_the_whole_run_drew(tmp_path: Path, ranks: int) -> None:
    whole = run_ranks(fit, ranks, str(tmp_path / "whole"), 2, None)
    run_ranks(fit, ranks, str(tmp_path / "part"), 1, None)
    resumed = run_ranks(fit, ranks, str(tmp_path / "rest"), 2, str(tmp_path / "part" / "epoch=0.ckpt"))
    for rank in range(ranks):
        assert resumed[rank] == whole[rank][4:]
    if ranks == 2:
        for one, other in zip(whole[0], whole[1], strict=True):
            assert all(a != b for a, b in zip(one[:-1], other[:-1], strict=True)), "each rank has numbers of its own"


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_on_another_number_of_ranks_it_begins_anew_and_says_so(tmp_path: Path) -> None:
    run_ranks(fit, 2, str(tmp_path), 1, None)
    module = Drawing()
    with pytest.warns(UserWarning, match="random state of 2 ranks, this run has 1"):
        trainer(tmp_path / "rest", 1, 2).fit(
            module, torch.utils.data.DataLoader(torch.zeros(4, 1)), ckpt_path=str(tmp_path / "epoch=0.ckpt"), weights_only=True
        )
    assert len(module.drawn) == 4
