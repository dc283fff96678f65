"""One rank in this process: every part exchanged for its twin, one after the other and all together."""

import json
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli.rank import run_rank
from lightning_fastnet.cli.settle import settle
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.run_folder import new_run_folder
from lightning_fastnet.launch.signals import StopRequest
from tests.cli.test_configs import composed

pytest.importorskip("nvidia.dali")
pytestmark = pytest.mark.filterwarnings("ignore:.*")  # a run keeps Lightning's advice from the terminal itself

TINY = [
    "trainer.max_epochs=2",
    "trainer.limit_train_batches=4",
    "trainer.limit_val_batches=2",
    "trainer.limit_test_batches=2",
    "optimizer.warmup_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.devices=1",
]


def resolved(folder: Path, *overrides: str) -> DictConfig:
    config = composed(*TINY, *overrides)
    settle(config, None)
    config.run_dir = str(new_run_folder(folder, "test"))
    made = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    assert isinstance(made, DictConfig)
    return made


EVERYTHING_OFF = ["strategy=ddp", "optimizer=sgd", "data=digits_torch", "~callbacks.step_profile", "~callbacks.progress"]


@pytest.mark.parametrize(
    "without",
    [[], *([[one] for one in EVERYTHING_OFF]), ["precision=bf16_mixed"], EVERYTHING_OFF],
    ids=lambda value: "+".join(value) or "all_parts",
)
def test_runs_with_one_part_after_the_other_off(tmp_path: Path, digits: Path, without: list[str]) -> None:
    config = resolved(tmp_path, f"data.root={digits}", *without)
    run_rank(config, StopRequest())
    metrics = json.loads((Path(config.run_dir) / "metrics.json").read_text())
    assert metrics["trainer/global_step"] == 8
    assert ("profile/step_ms" in metrics) == ("~callbacks.step_profile" not in without)


def test_the_last_checkpoint_is_the_last_when_the_best_came_earlier(tmp_path: Path, digits: Path) -> None:
    """Nothing learns at rate 0, so that the first of two epochs stays the best."""
    config = resolved(tmp_path, f"data.root={digits}", "optimizer.lr=0.0")
    run_rank(config, StopRequest())
    folder = Path(config.run_dir) / "checkpoints"
    steps = {name: torch.load(folder / f"{name}.ckpt", weights_only=True)["global_step"] for name in ("best", "last")}
    assert steps == {"best": 4, "last": 8}


def test_the_seed_decides_the_result(tmp_path: Path, digits: Path) -> None:
    def loss(seed: int) -> float:
        config = resolved(tmp_path, f"data.root={digits}", f"seed={seed}")
        run_rank(config, StopRequest())
        return float(json.loads((Path(config.run_dir) / "metrics.json").read_text())["val/loss"])

    first = loss(1)
    assert first == loss(1)
    assert first != loss(2)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.batch_size_per_device=4001", "4000 samples are too few for a batch of 4001"),
        ("data.sampling=sorted", "sampling='sorted' is unknown"),
        ("model.num_classes=9", "set model.num_classes=10"),
        ("data.device=gpu", "use device='auto'"),
        ("data.image_size=32", "these are 1 x 32 x 32"),
        ("data.image_size='28'", "image_size='28' must be a whole number"),
        ("optimizer.decay=cosin", "decay='cosin' is unknown"),
        ("optimizer.momentum=2", "momentum=2"),
        ("trainer.limit_train_batches=0", "no training batches"),
        ("optimizer.lr=1e6", "The run diverged"),
    ],
)
def test_bad_input_is_a_sentence(tmp_path: Path, digits: Path, override: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        run_rank(resolved(tmp_path, f"data.root={digits}", override), StopRequest())
