"""Names set from outside, and pictures to predict: each once, in an order that its result can be found by."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from PIL import Image
from torch import Tensor

from lightning_fastnet import ImageClassifier, UserError
from lightning_fastnet.data.datamodule import DALIDataModule, FolderDataModule
from lightning_fastnet.data.torch_folder import TorchDataModule
from tests.helpers import run_ranks

pytest.importorskip("nvidia.dali")

KINDS = [pytest.param(DALIDataModule, id="DALI"), pytest.param(TorchDataModule, id="torch")]


def write(root: Path, *names: str) -> Path:
    """Pictures of 8 x 8 whose level of grey is the number in their name."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), int(Path(name).stem), dtype=np.uint8)).save(root / name)
    return root


def module_of(kind: type[FolderDataModule], root: Path, **settings: Any) -> FolderDataModule:
    defaults = {"image_size": 8, "channels": 1, "mean": [0.0], "std": [1.0], "augment": "none", "batch_size_per_device": 2}
    return kind(root, **defaults | {"num_threads": None if kind is TorchDataModule else 1} | settings)


def levels(batches: Any) -> list[int]:
    return [round(255 * float(picture[0, 4, 4])) for pictures, _ in batches for picture in pictures]


class Levels(LightningModule):
    """Predicts a picture's level of grey."""

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        assert batch[1].tolist() == [0] * len(batch[1])
        return (255 * batch[0][:, 0, 4, 4]).round()


def trainer_of(**settings: Any) -> Trainer:
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(accelerator="cpu", **{"devices": 1, **quiet, **settings})


# ---- predictions ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["predict/3.png", "predict/deep/er/1.png", "test/a/9.png", "val/a/8.png", "train/a/7.png"],
            ["predict/3.png", "predict/deep/er/1.png"],
        ),
        (["test/b/9.png", "test/a/2.png", "val/a/8.png", "train/a/7.png"], ["test/a/2.png", "test/b/9.png"]),
        (["val/a/8.png", "train/a/7.png"], ["val/a/8.png"]),
        (["5.png", "some/6.png", "4.png"], ["4.png", "5.png", "some/6.png"]),
    ],
    ids=["predict", "test", "val", "root"],
)
def test_the_first_folder_with_pictures_is_predicted_in_the_order_of_its_paths(tmp_path, kind, names, expected):
    module = module_of(kind, write(tmp_path, *names))
    (tmp_path / "predict").mkdir(exist_ok=True)  # an empty one hides nothing
    assert module.predict_paths == [str(tmp_path / name) for name in expected]
    shown = trainer_of().predict(Levels(), module)
    assert torch.cat(shown).int().tolist() == [int(Path(name).stem) for name in expected]


def predicted_on_a_rank(rank: int, world_size: int, root: Path) -> tuple[list[str], list[int]]:
    module = module_of(DALIDataModule, root)
    shown = trainer_of(devices=world_size, strategy="ddp").predict(Levels(), module)
    return module.predict_paths, torch.cat(shown).int().tolist()


def test_two_ranks_predict_every_second_picture_each(tmp_path):
    write(tmp_path, *(f"{number:02d}.png" for number in range(7)))
    (left_paths, left), (right_paths, right) = run_ranks(predicted_on_a_rank, 2, tmp_path)
    assert left_paths == right_paths
    for rank, shown in enumerate((left, right)):
        assert shown == [int(Path(path).stem) for path in left_paths[rank::2]]


def test_nothing_to_predict_is_said_in_a_sentence(tmp_path):
    with pytest.raises(UserError, match=r"holds no pictures: it needs .*png.* files in it or in its subfolders"):
        module_of(DALIDataModule, tmp_path).predict_dataloader()


def test_the_classifier_asks_for_no_classes_where_there_are_none(tmp_path):
    module = ImageClassifier(torch.nn.Flatten(), lambda *_: None, 64)
    module.predict_step = lambda batch, batch_idx: module(batch[0])
    (scores,) = trainer_of().predict(module, module_of(DALIDataModule, write(tmp_path, "1.png", "2.png")))
    assert tuple(scores.shape) == (2, 64)


# ---- names from outside --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_with_given_names_needs_no_training_set(tmp_path, kind):
    module = module_of(kind, write(tmp_path, "val/a/1.png", "val/c/3.png", "test/c/4.png"))
    module.classes = ["c", "b", "a"]  # another order than the sorted one
    assert module.classes == ["c", "b", "a"]
    assert [labels.tolist() for _, labels in module.val_dataloader()] == [[2, 0]]
    assert [labels.tolist() for _, labels in module.test_dataloader()] == [[0]]


def test_given_names_give_the_training_labels_too_also_after_a_first_look(tmp_path):
    module = module_of(DALIDataModule, write(tmp_path, "train/a/1.png", "train/c/3.png"))
    assert module.classes == ["a", "c"]
    module.classes = ["c", "b", "a"]
    ((pictures, labels),) = module.train_dataloader()
    assert dict(zip(levels([(pictures, labels)]), labels.tolist(), strict=True)) == {1: 2, 3: 0}


def test_a_class_that_is_not_among_the_given_names_is_refused(tmp_path):
    module = module_of(DALIDataModule, write(tmp_path, "val/a/1.png", "val/zebra/3.png"))
    module.classes = ["a", "b"]
    with pytest.raises(UserError, match="val has the class 'zebra', which the training data lacks: remove it or add it there"):
        module.val_dataloader()
