"""Somebody else's Hydra app, written into a folder: it knows our groups by name only."""

from pathlib import Path

PROGRAM = """
import hydra
from hydra.utils import instantiate
from omegaconf import OmegaConf

@hydra.main(version_base="1.3", config_path="conf", config_name="app")
def main(config):
    import torch
    strategy, make = instantiate(config.strategy), instantiate(config.optimizer)
    optimizer, scheduler = make(torch.nn.Linear(2, 2), epochs=10, steps_per_epoch=3)
    print(type(strategy).__module__, type(optimizer).__module__, optimizer.defaults["momentum"], config.model, config.device)

main()
"""
APP = """defaults:
  - _self_
  - model: lenet
  - override hydra/job_logging: disabled
hydra: {output_subdir: null, run: {dir: .}}
device: ${fastnet.device_type:gpu}
"""
CHOOSES = ["+optimizer=lars", "+strategy=fused_all_reduce"]
PRINTS = "lightning_fastnet.plugins.fused_all_reduce lightning_fastnet.optim.lars 0.9 {'own': True} cuda"


def write_app(folder: Path) -> Path:
    """The program; beside it a ``conf/`` with a ``model/lenet`` of its own, which ours must not replace."""
    (folder / "conf" / "model").mkdir(parents=True)
    (folder / "conf" / "app.yaml").write_text(APP)
    (folder / "conf" / "model" / "lenet.yaml").write_text("own: true\n")
    program = folder / "app.py"
    program.write_text(PROGRAM)
    return program
