"""TorchDataModule, the twin without DALI: the same labels in the same order, the same pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from PIL import Image
from torch import Tensor

from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.datamodule import DALIDataModule, FolderDataModule
from lightning_fastnet.data.order import BatchOrder
from lightning_fastnet.data.torch_folder import TorchDataModule
from lightning_fastnet.errors import UserError

# Python 3.12 and 3.13 warn of every fork of a process with threads; the workers of these tests only read pictures
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork\\(\\) may lead to deadlocks:DeprecationWarning")

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


@pytest.fixture(scope="module")
def root(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Links to 100 digits to train on and 50 to evaluate."""
    root = tmp_path_factory.mktemp("few")
    for split, step in (("train", 40), ("val", 20)):
        for path in ClassFolder.read(digits / split).paths[::step]:
            link = root / Path(path).relative_to(digits)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    return root


def module_of(kind: type[FolderDataModule], root: Path, **settings: Any) -> FolderDataModule:
    defaults = {
        "image_size": 28,
        "channels": 1,
        "mean": [0.1307],
        "std": [0.3081],
        "batch_size_per_device": 16,
        "num_threads": 1,
        "augment": "none",
    }
    return kind(root, **defaults | settings)


class RightRank(Trainer):
    """The second Trainer of two."""

    global_rank, world_size = 1, 2  # type: ignore[assignment]


def both_loaders(root: Path, split: str, **settings: Any) -> list[Any]:
    """The split's loader on the second of two ranks, without DALI and with it."""
    pytest.importorskip("nvidia.dali")
    loaders = []
    for kind in (TorchDataModule, DALIDataModule):
        module = module_of(kind, root, **settings)
        module.trainer = RightRank(accelerator="cpu", devices=1, **QUIET)
        loaders.append(getattr(module, f"{split}_dataloader")())
    return loaders


def test_training_has_the_order_and_the_pixels_of_the_dali_module(root):
    ours, dali = both_loaders(root, "train", seed=4)
    for epoch in range(2):
        for loader in (ours, dali):
            loader.batch_sampler.set_epoch(epoch)
        assert len(ours) == len(dali) == 3
        for (pictures, labels), (dali_pictures, dali_labels) in zip(ours, dali, strict=True):
            assert labels.tolist() == dali_labels.tolist()
            torch.testing.assert_close(pictures, dali_pictures, rtol=0, atol=1e-5)


def test_evaluation_has_the_pixels_of_the_dali_module_at_another_size_too(root):
    ours, dali = both_loaders(root, "val", image_size=20, mean=[0.0], std=[1.0], batch_size_per_device=13)
    counts = []
    for (pictures, labels), (dali_pictures, dali_labels) in zip(ours, dali, strict=True):
        assert labels.tolist() == dali_labels.tolist()
        counts.append(len(labels))
        error = 255 * (pictures - dali_pictures).abs()
        assert error.mean() < 0.5
        assert error[..., 1:-1, 1:-1].max() < 3  # at the border the two filters weigh the outside differently
    assert counts == [13, 12]


class LabelRecorder(LightningModule):
    """Notes the labels it is shown, epoch after epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: dict[str, list[list[list[int]]]] = {"train": [], "validate": []}

    def on_train_epoch_start(self) -> None:
        self.seen["train"].append([])

    def on_validation_epoch_start(self) -> None:
        self.seen["validate"].append([])

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        self.seen["train"][-1].append(batch[1].tolist())
        return self.weight.sum()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.seen["validate"][-1].append(batch[1].tolist())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_fit_sees_each_epochs_order_and_every_val_picture_once(root):
    module, recorder = module_of(TorchDataModule, root, seed=2), LabelRecorder()
    Trainer(accelerator="cpu", devices=1, max_epochs=2, num_sanity_val_steps=0, limit_train_batches=4, **QUIET).fit(recorder, module)
    order, labels = BatchOrder(100, 16, seed=2), ClassFolder.read(root / "train").labels
    for epoch, seen in enumerate(recorder.seen["train"]):
        order.set_epoch(epoch)
        assert seen == [labels[batch].tolist() for batch in order][:4]
    val = ClassFolder.read(root / "val").labels
    assert recorder.seen["validate"] == [[part.tolist() for part in np.split(val, [16, 32, 48])]] * 2


def picture_of(root: Path, *, augment: str, training: bool = True, epoch: int = 0) -> Tensor:
    """The first picture of ``root`` in an epoch."""
    module = module_of(TorchDataModule, root, augment=augment, sampling="fixed_cycle", batch_size_per_device=1, num_threads=None)
    loader = module.loader(ClassFolder.read(root / "train"), training=training)
    loader.batch_sampler.set_epoch(epoch)
    return next(iter(loader))[0][0] * 0.3081 + 0.1307


def test_jitter_keeps_within_the_dali_modules_limits(tmp_path):
    (tmp_path / "train" / "a").mkdir(parents=True)
    bar = np.zeros((28, 28), dtype=np.uint8)
    bar[13:15, 4:24] = 255
    Image.fromarray(bar).save(tmp_path / "train" / "a" / "0.png")
    shifts, turns, areas = [], [], []
    x, y = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="xy")
    for epoch in range(100):
        share = picture_of(tmp_path, augment="jitter", epoch=epoch)[0]
        areas.append(float(share.sum()) / 40)
        share /= share.sum()
        right, down = x - (share * x).sum(), y - (share * y).sum()
        shifts += [abs(13.5 - float((share * x).sum())), abs(13.5 - float((share * y).sum()))]
        skew, spread = (share * right * down).sum(), (share * (right**2 - down**2)).sum()
        turns.append(abs(float(torch.rad2deg(torch.atan2(2 * skew, spread)) / 2)))
    assert 1.5 < max(shifts) < 2.3  # pixels: 2, of a picture that may be a tenth smaller
    assert 9 < max(turns) < 10.5  # degrees
    assert 0.75 < min(areas) < 0.9 < 1.1 < max(areas) < 1.3  # 0.9 squared to 1.1 squared


def test_jitter_is_for_training_alone(root):
    plain = picture_of(root, augment="none")
    assert not torch.equal(picture_of(root, augment="jitter"), plain)
    module = module_of(TorchDataModule, root, augment="jitter"), module_of(TorchDataModule, root, augment="none")
    for (one, _), (other, _) in zip(*(each.val_dataloader() for each in module), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("workers", [0, 2])
def test_jitter_moves_every_picture_as_the_dali_module_does_in_every_epoch(root, workers):
    pytest.importorskip("nvidia.dali")
    settings = {"augment": "jitter", "seed": 3, "mean": [0.0], "std": [1.0]}
    ours = module_of(TorchDataModule, root, num_threads=workers, **settings).train_dataloader()
    dali = module_of(DALIDataModule, root, **settings).train_dataloader()
    for epoch in (0, 2):
        for loader in (ours, dali):
            loader.batch_sampler.set_epoch(epoch)
        for (pictures, _), (dali_pictures, _) in zip(ours, dali, strict=True):
            error = 255 * (pictures - dali_pictures).abs()
            assert error.max() < 1.01  # both round to whole levels
            assert error.mean() < 0.1


@pytest.mark.parametrize("workers", [0, 2])
def test_reading_draws_nothing_from_the_trainings_random_numbers(root, workers):
    before = torch.get_rng_state()
    module = module_of(TorchDataModule, root, augment="jitter", num_threads=workers)
    for loader in (module.train_dataloader(), module.val_dataloader()):
        assert len(list(loader)) == len(loader)
    assert torch.equal(torch.get_rng_state(), before)


def test_there_is_no_gpu_to_decode_on(root):
    for device in ("auto", "cpu"):
        module_of(TorchDataModule, root, device=device)
    with pytest.raises(UserError, match="device='gpu': torchvision decodes on the host; use device='auto', or DALIDataModule"):
        module_of(TorchDataModule, root, device="gpu")
