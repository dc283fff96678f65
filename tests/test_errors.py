"""``import pytorch_lightning`` next to these plugins: the twin package's classes are others, and the error must say so."""

import subprocess
import sys

import pytest

PROGRAM = """
import pytorch_lightning as pl
from lightning_fastnet import DALIDataModule, FusedAllReduceStrategy, StepProfile

class Module(pl.LightningModule):
    def training_step(self, batch, batch_idx): ...
    def train_dataloader(self): return [0]
    def configure_optimizers(self): ...

def trainer(**arguments):
    return pl.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, **arguments)

for mixed in (
    lambda: trainer(strategy=FusedAllReduceStrategy()),
    lambda: trainer(callbacks=[StepProfile()]).fit(Module()),
    lambda: trainer().fit(Module(), datamodule=DALIDataModule(".")),
):
    try:
        mixed()
        print("nothing was said")
    except ValueError as error:
        print(str(error).replace(chr(10), " "))
"""


def test_mixing_with_the_twin_package_is_explained() -> None:
    pytest.importorskip("pytorch_lightning")
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    strategy, profile, data = (line for line in run.stdout.splitlines() if line)
    assert "FusedAllReduceStrategy" in strategy
    assert "does not work with `import pytorch_lightning`: import lightning.pytorch instead" in strategy
    for line, name in ((profile, "StepProfile"), (data, "DALIDataModule")):
        assert line.startswith(f"{name} is a lightning.pytorch class, but this Trainer comes from `pytorch_lightning`: write")
