"""A picture that cannot be read ends the run with a sentence that names it, wherever in the epoch it lies."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lightning_fastnet.data.datamodule import DALIDataModule, FolderDataModule
from lightning_fastnet.data.torch_folder import TorchDataModule
from lightning_fastnet.errors import UserError

pytest.importorskip("nvidia.dali")

from nvidia.dali import fn, types

from lightning_fastnet.data.loader import DALILoader

# Python 3.12 and 3.13 warn of every fork of a process with threads; the workers of these tests only read pictures
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork\\(\\) may lead to deadlocks:DeprecationWarning")

KINDS = [
    pytest.param(DALIDataModule, 1, id="DALI"),
    pytest.param(TorchDataModule, 0, id="torch"),
    pytest.param(TorchDataModule, 2, id="torch, 2 workers"),
]
ODD = Path(__file__).parents[2].parent / "shared" / "data" / "odd-jpegs"


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)).save(file, kind)
    return file.getvalue()


JPEG, PNG = encoded("jpeg"), encoded("png")
BROKEN = {
    "cut_off.jpg": (JPEG[: len(JPEG) // 4], ""),
    "cut_off.png": (PNG[: len(PNG) // 2], ""),
    "empty.jpg": (b"", "the file is empty"),
    "text.jpg": (b"<html>404</html>", "it is no picture of a known kind"),
    "deleted.jpg": (JPEG, "there is no such file"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for split in ("train", "val"):
        (tmp_path / split / "a").mkdir(parents=True)
        for number in range(20):
            (tmp_path / split / "a" / f"{number:02d}.jpg").write_bytes(JPEG)
    return tmp_path


def loader_of(kind: type[FolderDataModule], root: Path, workers: int, split: str, **settings: Any) -> Any:
    defaults = {"image_size": 32, "batch_size_per_device": 4, "num_threads": workers, "sampling": "fixed_cycle"}
    module = kind(root, **defaults | settings)
    return module.train_dataloader() if split == "train" else module.val_dataloader()


def spoil(root: Path, split: str, number: int, name: str) -> Path:
    """Puts a broken file in the place of a picture, in the order of the sorted names."""
    file = root / split / "a" / f"{number:02d}.jpg"
    broken = file.with_name(f"{number:02d}_{name}")
    file.rename(broken)
    broken.write_bytes(BROKEN[name][0])
    return broken


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize(("kind", "workers"), KINDS)
def test_an_unreadable_picture_is_named(root, kind, workers, name, split):
    broken = spoil(root, split, 9, name)
    loader = loader_of(kind, root, workers, split, augment="none")
    if name == "deleted.jpg":
        broken.unlink()
    with pytest.raises(UserError) as caught:
        list(loader)
    sentence = str(caught.value)
    assert sentence.startswith(f"{broken} cannot be read as a picture ({BROKEN[name][1]}")
    assert sentence.endswith("): remove or replace it.")
    assert "\n" not in sentence


@pytest.mark.parametrize("number", [0, 3, 4, 11, 19])
def test_it_is_named_wherever_it_lies_and_the_batches_before_it_are_whole(root, number):
    broken = spoil(root, "val", number, "text.jpg")
    batches: list[Any] = []
    loader = loader_of(DALIDataModule, root, 2, "val")
    with pytest.raises(UserError, match=broken.name):
        batches.extend(batch for batch, _ in loader)
    assert len(batches) <= number // 4
    assert loader.state_dict()["batches"] == len(batches)
    assert all(batch.shape == (4, 3, 32, 32) for batch in batches)


def test_a_picture_that_was_handed_out_and_is_gone_since_is_not_blamed(root):
    broken = spoil(root, "val", 19, "text.jpg")
    batches = iter(loader_of(DALIDataModule, root, 1, "val"))
    next(batches)
    (root / "val" / "a" / "00.jpg").unlink()
    with pytest.raises(UserError, match=broken.name):
        list(batches)


def test_photos_of_the_training_crop_name_it_too(root):
    broken = spoil(root, "train", 5, "empty.jpg")
    with pytest.raises(UserError, match=f"{broken.name} cannot be read as a picture .the file is empty"):
        list(loader_of(DALIDataModule, root, 1, "train"))


def test_one_just_behind_the_end_of_a_limited_epoch_is_named_not_a_dead_pipeline(root):
    broken = spoil(root, "val", 4, "text.jpg")
    loader = loader_of(DALIDataModule, root, 1, "val")
    with pytest.raises(UserError, match=broken.name):
        [next(iter(loader)) for _ in range(3)]


def test_a_repaired_folder_is_read_by_the_same_loader(root):
    broken = spoil(root, "val", 8, "text.jpg")
    loader = loader_of(DALIDataModule, root, 1, "val")
    for _ in range(2):
        with pytest.raises(UserError, match=broken.name):
            list(loader)
    broken.write_bytes(JPEG)
    assert len(list(loader)) == 5


class Numbers:
    """Samples of another kind, which have no names."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return (np.frombuffer(JPEG if index != 17 else b"no", dtype=np.uint8),)


def test_samples_without_names_are_named_by_their_number():
    loader = DALILoader(lambda file: (fn.decoders.image(file, output_type=types.RGB),), 4, samples=Numbers(), sampling="sequential")
    with pytest.raises(UserError, match=r"^sample 17 cannot be read as a picture \("):
        list(loader)


def test_a_failure_that_no_sample_repeats_alone_stays_dalis_own():
    built = []

    def fails_once(file: Any) -> tuple[Any]:
        built.append(None)
        return (fn.decoders.image(file, output_type=types.RGB) if len(built) == 1 else file,)

    with pytest.raises(RuntimeError, match="image"):
        list(DALILoader(fails_once, 4, samples=Numbers(), sampling="sequential"))


@pytest.mark.skipif(not ODD.is_dir(), reason="the odd pictures lie beside a checkout only")
@pytest.mark.parametrize("name", ["truncated_50pct.jpg", "html_named.jpg", "truncated_pillow.jpg"])
@pytest.mark.parametrize(("kind", "workers"), KINDS[:2])
def test_broken_files_from_the_wild_are_named(root, kind, workers, name):
    (root / "val" / "a" / name).write_bytes((ODD / name).read_bytes())
    with pytest.raises(UserError, match=f"{name} cannot be read as a picture"):
        list(loader_of(kind, root, workers, "val"))


@pytest.mark.skipif(not ODD.is_dir(), reason="the odd pictures lie beside a checkout only")
def test_odd_files_from_the_wild_that_are_readable_are_read(root):
    names = ["gray_photo.jpg", "cmyk_adobe.jpg", "progressive.jpg", "png_named.jpeg", "one_pixel.jpg", "one_column.jpg", "upper_case.JPEG"]
    for name in names:
        (root / "val" / "a" / name).write_bytes((ODD / name).read_bytes())
    pictures = torch.cat([batch for batch, _ in loader_of(DALIDataModule, root, 1, "val")])
    assert len(pictures) == 27
    assert torch.isfinite(pictures).all()
