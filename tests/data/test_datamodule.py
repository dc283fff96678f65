"""DALIDataModule under Lightning's own Trainer, on one rank and on two: what a run sees, and what it is told when it cannot."""

import os
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from PIL import Image
from torch import Tensor

from lightning_fastnet import DALIDataModule, FusedAllReduceStrategy, UserError
from lightning_fastnet.data.order import epoch_order
from tests.helpers import run_ranks

pytest.importorskip("nvidia.dali")

TRAIN, VAL = 44, 23  # pictures; neither fills the last batch of 8, VAL is odd


class Recorder(LightningModule):
    """Notes which pictures it is shown: an epoch is a list of batches of picture numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: dict[str, list[list[list[int]]]] = {"train": [], "validate": [], "sanity_check": [], "test": []}

    def note(self, batch: tuple[Tensor, Tensor]) -> None:
        pictures, labels = batch
        numbers = torch.round(255 * pictures[:, 0, 4, 4]).long()  # every picture is its number's shade of grey
        assert labels.tolist() == (numbers % 4).tolist()
        self.seen[self.trainer.state.stage.value][-1].append(numbers.tolist())

    def begin(self) -> None:
        self.seen[self.trainer.state.stage.value].append([])

    def on_train_epoch_start(self) -> None:
        self.begin()

    def on_validation_epoch_start(self) -> None:
        self.begin()

    def on_test_epoch_start(self) -> None:
        self.begin()

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        self.note(batch)
        return self.weight.sum()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.note(batch)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.note(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def write_split(folder: Path, count: int) -> None:
    """``count`` pictures of 8 x 8 in 4 classes: picture ``i`` is grey of level ``i`` and of class ``i % 4``."""
    for number in range(count):
        file = folder / str(number % 4) / f"{number:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number, dtype=np.uint8)).save(file)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_split(tmp_path / "train", TRAIN)
    write_split(tmp_path / "val", VAL)
    return tmp_path


def as_listed(count: int) -> np.ndarray:
    """The pictures' numbers in the order of the sorted files."""
    return np.concatenate([np.arange(label, count, 4) for label in range(4)])


def train_batches(epoch: int, sampling: str = "shuffle", seed: int = 0, size: int = 8) -> list[list[int]]:
    order = as_listed(TRAIN)[epoch_order(TRAIN, sampling, seed, epoch)]
    return order[: TRAIN // size * size].reshape(-1, size).tolist()


def val_batches() -> list[list[int]]:
    return [batch.tolist() for batch in np.split(as_listed(VAL), [8, 16])]


def module_of(root: Path, **settings: Any) -> DALIDataModule:
    return DALIDataModule(
        root,
        **{"image_size": 8, "channels": 1, "mean": [0.0], "std": [1.0], "batch_size_per_device": 8, "num_threads": 1, "augment": "none"}
        | settings,
    )


def trainer_of(**settings: Any) -> Trainer:
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    return Trainer(accelerator="cpu", **dict.fromkeys(quiet, False) | {"devices": 1, "max_epochs": 2} | settings)


def fit(root: Path, trainer: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    recorder = Recorder()
    trainer_of(**trainer or {}).fit(recorder, datamodule=module_of(root, **data))
    return recorder.seen


# ---- one rank ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sanity_steps", [0, 2])
def test_a_fit_sees_each_epochs_order_and_every_val_picture_once(root, sanity_steps):
    seen = fit(root, {"num_sanity_val_steps": sanity_steps})
    assert seen["train"] == [train_batches(0), train_batches(1)]
    assert seen["validate"] == [val_batches(), val_batches()]
    assert list(chain(*seen["sanity_check"])) == val_batches()[:sanity_steps]


def test_a_limited_epoch_takes_nothing_from_the_next(root):
    seen = fit(root, {"limit_train_batches": 2, "limit_val_batches": 1, "max_epochs": 3})
    assert seen["train"] == [train_batches(epoch)[:2] for epoch in range(3)]
    assert seen["validate"] == [val_batches()[:1]] * 3


def test_validation_amid_an_epoch_does_not_disturb_it(root):
    seen = fit(root, {"val_check_interval": 2, "max_epochs": 1})
    assert seen["train"] == [train_batches(0)]
    assert seen["validate"] == [val_batches()] * 2


def test_a_fixed_cycle_repeats_its_batches_and_another_seed_has_others(root):
    seen = fit(root, sampling="fixed_cycle", seed=5)
    assert seen["train"] == [train_batches(0, "fixed_cycle", seed=5)] * 2
    assert seen["train"] != fit(root, sampling="fixed_cycle", seed=6)["train"]


def test_a_run_that_goes_on_goes_on_with_the_next_epoch(root, tmp_path):
    recorder, trainer = Recorder(), trainer_of(max_epochs=1)
    trainer.fit(recorder, datamodule=module_of(root))
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    recorder = Recorder()
    trainer_of(max_epochs=2).fit(recorder, datamodule=module_of(root), ckpt_path=tmp_path / "one.ckpt")
    assert recorder.seen["train"] == [train_batches(1)]


@pytest.mark.parametrize("with_test_folder", [False, True])
def test_testing_takes_the_test_folder_if_there_is_one_else_val(root, with_test_folder):
    if with_test_folder:
        write_split(root / "test", 5)
    recorder = Recorder()
    trainer_of().test(recorder, datamodule=module_of(root), verbose=False)
    assert recorder.seen["test"] == [[as_listed(5).tolist()] if with_test_folder else val_batches()]


def test_only_training_pictures_are_jittered(root):
    module = module_of(root, augment="jitter")
    module.trainer = trainer_of()
    levels = {split: [set(picture.flatten().tolist()) for picture in pictures_of(module, split)] for split in ("train", "val")}
    assert any(len(of_picture) > 1 for of_picture in levels["train"])  # black came in from outside
    assert all(len(of_picture) == 1 for of_picture in levels["val"])


def pictures_of(module: DALIDataModule, split: str) -> Tensor:
    loader = module.train_dataloader() if split == "train" else module.val_dataloader()
    return torch.cat([pictures for pictures, _ in loader])


def test_pictures_are_normalised_with_the_given_numbers(root):
    plain, other = module_of(root), module_of(root, channels=3, mean=[0.1, 0.2, 0.3], std=[0.5, 0.25, 0.125])
    plain.trainer = other.trainer = trainer_of()
    expected = (pictures_of(plain, "val") - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([0.5, 0.25, 0.125])[:, None, None]
    torch.testing.assert_close(pictures_of(other, "val"), expected)


def test_data_is_prepared_once_before_it_is_read(tmp_path):
    asked = []

    def prepare() -> Path:
        asked.append(None)
        write_split(tmp_path / "train", TRAIN)
        write_split(tmp_path / "val", VAL)
        return tmp_path

    seen = fit(None, prepare=prepare)
    assert len(asked) == 1
    assert seen["validate"] == [val_batches()] * 2


def test_cores_are_shared_by_the_ranks_of_a_machine(root, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(12), raising=False)
    module = module_of(root, num_threads=None)
    threads = []
    for ranks_here in (1, 4, 24):
        module.trainer = trainer_of(devices=ranks_here)
        threads.append(module._threads)
    assert threads == [12, 3, 1]


# ---- two ranks -----------------------------------------------------------------------------------------------------------------------


def fit_on_a_rank(rank: int, world_size: int, root: Path, trainer: dict[str, Any], data: dict[str, Any]) -> Any:
    try:
        return fit(root, {"devices": world_size, "strategy": FusedAllReduceStrategy(), **trainer}, **data)
    except UserError as error:
        return str(error)


def test_two_ranks_share_the_global_batches_of_one_and_count_every_val_picture_once(root):
    settings = {"num_sanity_val_steps": 2, "limit_train_batches": 4}
    left, right = run_ranks(fit_on_a_rank, 2, root, settings, {"batch_size_per_device": 4})
    joined = [[a + b for a, b in zip(*epoch, strict=True)] for epoch in zip(left["train"], right["train"], strict=True)]
    assert joined == [train_batches(epoch)[:4] for epoch in range(2)]
    for epoch in range(2):
        of_both = left["validate"][epoch] + right["validate"][epoch]
        assert sorted(chain(*of_both)) == list(range(VAL))
        assert all(of_both)


def test_every_rank_says_that_the_data_are_too_few(root):
    sentences = run_ranks(fit_on_a_rank, 2, root, {}, {"batch_size_per_device": 30})
    sentence = f"{TRAIN} samples are too few for a batch of 30 on each of 2 ranks: use fewer ranks, a smaller batch or more data."
    assert sentences == [sentence] * 2


# ---- what is refused -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_missing_split_is_named(root, split):
    (root / split).rename(root / "elsewhere")
    with pytest.raises(UserError, match=f"{split} does not exist: give a folder that holds one subfolder of pictures a class"):
        fit(root)


def test_a_class_that_only_val_has_is_named(root):
    (root / "val" / "0").rename(root / "val" / "zebra")
    with pytest.raises(UserError, match="val has the class 'zebra', which the training data lacks"):
        fit(root)


def test_a_class_that_val_lacks_leaves_the_labels_as_they_are(root):
    for file in (root / "val" / "1").iterdir():
        file.unlink()
    (root / "val" / "1").rmdir()
    seen = fit(root, {"max_epochs": 1})  # the recorder compares the labels
    assert list(chain(*seen["validate"][0])) == [number for number in as_listed(VAL).tolist() if number % 4 != 1]


def test_too_large_a_batch_is_refused(root):
    with pytest.raises(UserError, match="44 samples are too few for a batch of 45 on each of 1 ranks"):
        fit(root, batch_size_per_device=45)


def test_without_dali_a_sentence_says_what_to_do(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    for name in ("loader", "pipelines"):
        monkeypatch.delitem(sys.modules, f"lightning_fastnet.data.{name}", raising=False)
    with pytest.raises(UserError, match=r"DALI is not installed: pip install 'lightning-fastnet\[train\]' on Linux; .*TorchDataModule"):
        fit(root)


def test_decoding_on_a_gpu_needs_a_trainer_with_one(root):
    with pytest.raises(UserError, match="the Trainer runs on cpu: use device='auto'"):
        fit(root, device="gpu")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"device": "tpu"}, "device='tpu' is unknown: choose auto, gpu or cpu"),
        ({"sampling": "sequential"}, "sampling='sequential' is unknown: choose shuffle or fixed_cycle"),
        ({"channels": 4, "mean": [0.0] * 4, "std": [1.0] * 4}, "channels=4 .*: give 1 or 3 channels"),
        ({"augment": "flip"}, "augment='flip' is unknown: choose one of crop_flip, jitter, none"),
        ({"channels": 3}, "channels=3 with 1 means and 1 deviations: give 1 or 3 channels and one of each a channel"),
        ({"std": [1.0, 1.0]}, "channels=1 with 1 means and 2 deviations"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(wrong, words):
    with pytest.raises(UserError, match=words):
        module_of(Path("nowhere"), **wrong)


def test_the_twin_packages_trainer_is_refused(root):
    twin = type("Trainer", (), {"__module__": "pytorch_lightning.trainer.trainer"})()
    with pytest.raises(UserError, match=r"DALIDataModule is a lightning.pytorch class, but this Trainer comes from `pytorch_lightning`"):
        module_of(root).trainer = twin
