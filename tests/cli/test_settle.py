"""What is left open gets filled in; what cannot be is refused before torch is imported."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli import settle as settle_module
from lightning_fastnet.cli.settle import settle
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.devices import Devices
from lightning_fastnet.launch.outside import OutsideRank


def config(**changes: Any) -> DictConfig:
    base = OmegaConf.create(
        {
            "task": "fit",
            "seed": 0,
            "target": None,
            "global_batch_size": 128,
            **{key: {"_target_": "x"} for key in ("strategy", "precision", "optimizer", "model")},
            "data": {"root": None, "prepare": None, "batch_size_per_device": None},
            "trainer": {"accelerator": "cpu", "devices": "auto", "num_nodes": 1, "max_epochs": 3},
        }
    )
    for key, value in changes.items():
        OmegaConf.update(base, key.replace("__", "."), value)
    return base


@pytest.fixture(autouse=True)
def _four_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle_module, "resolve_devices", lambda accelerator, devices: Devices("cpu", 4 if devices == "auto" else devices))


def test_the_ranks_share_the_global_batch() -> None:
    settled = config()
    settle(settled, None)
    assert (settled.trainer.devices, settled.data.batch_size_per_device) == (4, 32)


def test_a_batch_a_device_goes_first() -> None:
    settled = config(data__batch_size_per_device=5)
    settle(settled, None)
    assert settled.global_batch_size == 20


def test_ranks_from_outside_are_taken_as_they_are() -> None:
    settled = config()
    settle(settled, OutsideRank(3, 16, 8))
    assert (settled.trainer.devices, settled.trainer.num_nodes, settled.data.batch_size_per_device) == (8, 2, 8)


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"global_batch_size": 130}, None, "use 128 or 132"),
        ({"global_batch_size": 3}, None, "use 4"),
        ({"global_batch_size": None}, None, "set one"),
        ({"trainer__max_epochs": "three"}, None, "trainer.max_epochs=three must be a whole number"),
        ({"trainer__max_epochs": 0}, None, "trainer.max_epochs=0 must be a whole number of at least 1"),
        ({"seed": True}, None, "seed=true must be a whole number"),
        ({"seed": -1}, None, "seed=-1 must be a whole number"),
        ({"seed": 99999999999}, None, "at most 4294967295"),
        ({"global_batch_size": 128.0}, None, "global_batch_size=128.0 must be a whole number"),
        ({"target": "high"}, None, "target=high must be a number"),
        ({"strategy": None}, None, "A run needs a strategy"),
        ({"trainer__num_nodes": 2}, None, "torchrun or srun"),
        ({"trainer__devices": 2}, OutsideRank(0, 8, 8), "8 ranks were started on this node"),
        ({"trainer__num_nodes": 3}, OutsideRank(0, 16, 8), "on 2 nodes"),
        ({"data__root": "/no/such/folder"}, None, "data.root=/no/such/folder does not exist"),
    ],
)
def test_refusals(changes: dict[str, Any], place: OutsideRank | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        settle(config(**changes), place)


def test_a_folder_given_by_the_user_must_be_there_even_where_data_could_be_made(tmp_path: Path) -> None:
    """Else a mistyped folder would train on other data."""
    with pytest.raises(UserError, match="does not exist"):
        settle(config(data__root=str(tmp_path / "nowhere"), data__prepare={"_target_": "x"}), None)
