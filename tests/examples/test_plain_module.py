"""A stranger's module with each plugin that exists, and with all."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from examples import plain_module
from lightning_fastnet import FusedAllReduceStrategy, StepProfile
from tests.helpers import run_ranks

EXAMPLE = Path(plain_module.__file__)
pytestmark = [pytest.mark.filterwarnings("ignore:.*does not have many workers.*")]

PLUGINS: dict[str, dict[str, Any]] = {
    "none": {},
    "strategy": {"strategy": FusedAllReduceStrategy},
    "profile": {"callbacks": StepProfile},
    "all": {"strategy": FusedAllReduceStrategy, "callbacks": StepProfile},
}


def fit(rank: int, world_size: int, plugins: str) -> tuple[float, Any]:
    chosen = PLUGINS[plugins]
    torch.manual_seed(0)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=world_size,
        strategy=chosen["strategy"]() if "strategy" in chosen else "ddp",
        callbacks=[chosen["callbacks"](print_summary=False)] if "callbacks" in chosen else None,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = plain_module.PlainModule()
    trainer.fit(module, *plain_module.loaders())
    return float(trainer.callback_metrics["val_accuracy"]), module.network[5].weight.detach().numpy()


@pytest.mark.parametrize("plugins", list(PLUGINS))
def test_learns_the_same_with_any_of_them(plugins: str) -> None:
    (accuracy, weights), (_, other) = run_ranks(fit, 2, plugins)
    assert accuracy > 0.9
    assert (weights == other).all()
    assert (weights == run_ranks(fit, 2, "none")[0][1]).all(), "bit for bit what Lightning's DDP trains"


def test_it_knows_nothing_of_this_project() -> None:
    before_main = EXAMPLE.read_text().split("if __name__")[0]
    assert "lightning_fastnet" not in before_main.replace("lightning-fastnet", "")


def test_runs_as_a_script(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Where a step's time went" in run.stdout
