"""``import pytorch_lightning`` next to these plugins: the twin package's classes are others, and the error must say so."""

import subprocess
import sys

import pytest

PROGRAM = """
import pytorch_lightning as pl
from lightning_fastnet import {name}
from tests.test_errors import Tiny

trainer = pl.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, **{arguments})
trainer.fit(Tiny(pl).module(), **{data})
"""


class Tiny:
    """A module and a loader of whichever package is given."""

    def __init__(self, pl: object) -> None:
        self.pl = pl

    def module(self) -> object:
        import torch

        class Module(self.pl.LightningModule):  # type: ignore[name-defined,misc]
            def training_step(self, batch: object, batch_idx: int) -> None:
                return None

            def train_dataloader(self) -> list[object]:
                return [torch.zeros(1)]

            def configure_optimizers(self) -> None:
                return None

        return Module()


@pytest.mark.parametrize(
    ("name", "arguments", "data"),
    [
        ("FusedAllReduceStrategy", "dict(strategy=FusedAllReduceStrategy())", "dict()"),
        ("StepProfile", "dict(callbacks=[StepProfile()])", "dict()"),
        ("DALIDataModule", "dict()", "dict(datamodule=DALIDataModule('.'))"),
    ],
)
def test_mixing_with_the_twin_package_is_explained(name: str, arguments: str, data: str) -> None:
    pytest.importorskip("pytorch_lightning")
    program = PROGRAM.format(name=name, arguments=arguments, data=data)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode != 0
    last = run.stderr.strip().splitlines()[-1]
    assert "pytorch_lightning" in last
    assert "lightning.pytorch" in last
    assert name in last
