"""Photos through DALI are what torchvision makes of them, for the same numbers and for any shape of photo."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from lightning_fastnet.data.augment import PHOTO_NUMBERS, crop_window
from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.datamodule import DALIDataModule
from lightning_fastnet.data.torch_folder import TorchDataModule, photo

pytest.importorskip("nvidia.dali")

from lightning_fastnet.data.loader import DALILoader
from lightning_fastnet.data.pipelines import photos

SHAPES = [(300, 400), (480, 360), (257, 255), (97, 101), (1, 50), (500, 20), (30, 31)]  # height, width; image_size is 64


def smooth(height: int, width: int) -> np.ndarray:
    """A picture whose colours change slowly, RGB."""
    row, column = np.mgrid[0:height, 0:width]
    channels = [128 + 70 * np.sin(row / 31 + k) + 50 * np.cos(column / 37 - 2 * k) for k in range(3)]
    return np.stack(channels, -1).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ClassFolder:
    """Every shape as PNG and JPEG, and a grey JPEG, an RGBA PNG, a palette PNG."""
    root = tmp_path_factory.mktemp("photos")
    (root / "train" / "a").mkdir(parents=True)
    for height, width in SHAPES:
        for suffix, settings in (("png", {}), ("jpg", {"quality": 97, "subsampling": 0})):
            Image.fromarray(smooth(height, width)).save(root / "train" / "a" / f"{height}x{width}.{suffix}", **settings)
    Image.fromarray(smooth(120, 90)).convert("L").save(root / "train" / "a" / "grey.jpg", quality=97)
    Image.fromarray(smooth(120, 90)).convert("RGBA").save(root / "train" / "a" / "rgba.png")
    Image.fromarray(smooth(120, 90)).convert("P").save(root / "train" / "a" / "palette.png")
    return ClassFolder.read(root / "train")


def through_dali(folder: ClassFolder, uniform: np.ndarray | None = None, channels: int = 3, image_size: int = 64) -> Tensor:
    """All photos as one batch, as levels of 0 to 255."""

    class Samples:
        def __len__(self) -> int:
            return len(folder)

        def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
            return folder[index] if uniform is None else (*folder[index], uniform[index])

    graph = partial(photos, image_size=image_size, channels=channels, mean=(0.0,) * channels, std=(1.0,) * channels, gpu=False)
    ((pictures, _),) = DALILoader(graph, len(folder), samples=Samples(), sampling="sequential")
    return 255 * pictures


def by_pil(path: str, channels: int = 3) -> Tensor:
    return v2.functional.pil_to_tensor(Image.open(path).convert("L" if channels == 1 else "RGB"))


def assert_close(ours: Tensor, expected: list[Tensor], folder: ClassFolder) -> None:
    for picture, other, path in zip(ours, expected, folder.paths, strict=True):
        error = (picture - other.float()).abs()
        assert error.mean() < 1.5, f"{Path(path).name}: {error.mean():.2f} levels"


@pytest.mark.parametrize("image_size", [64, 65, 224])
@pytest.mark.parametrize("channels", [1, 3])
def test_evaluation_is_torchvisions_resize_and_centre_crop(folder, image_size, channels):
    transform = v2.Compose([v2.Resize(round(image_size * 256 / 224), antialias=True), v2.CenterCrop(image_size)])
    expected = [transform(by_pil(path, channels)) for path in folder.paths]
    assert_close(through_dali(folder, channels=channels, image_size=image_size), expected, folder)


def test_the_centre_of_fine_stripes_lies_where_torchvision_has_it(tmp_path):
    """One pixel off would be a third of the contrast; all remainders of the crop's offset by 4."""
    (tmp_path / "a").mkdir()
    for width in range(300, 340, 5):
        stripes = 128 + 100 * np.sin(np.arange(width) * 2 * np.pi / 12)
        Image.fromarray(np.tile(stripes.astype(np.uint8), (256, 1))).save(tmp_path / "a" / f"{width}.png")
    folder = ClassFolder.read(tmp_path)
    transform = v2.Compose([v2.Resize(256, antialias=True), v2.CenterCrop(224)])
    assert_close(through_dali(folder, channels=1, image_size=224), [transform(by_pil(path, 1)) for path in folder.paths], folder)


def by_pil_crop(path: str, uniform: np.ndarray) -> Tensor:
    """The window cut out, resized and flipped by PIL alone."""
    with Image.open(path) as picture:
        top, left, high, wide = crop_window(picture.height, picture.width, uniform)
        picture = picture.convert("RGB").crop((left, top, left + wide, top + high)).resize((64, 64), Image.Resampling.BILINEAR)
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if uniform[4] < 0.5 else picture
        return v2.functional.pil_to_tensor(picture)


@pytest.mark.parametrize("draw", range(4))
def test_a_training_crop_is_the_window_of_its_numbers_resized_and_flipped(folder, draw):
    uniform = np.random.default_rng(draw).random((len(folder), PHOTO_NUMBERS), dtype=np.float32)
    assert {bool(number < 0.5) for number in uniform[:, 4]} == {True, False}
    ours = through_dali(folder, uniform)
    assert_close(ours, [by_pil_crop(path, numbers) for path, numbers in zip(folder.paths, uniform, strict=True)], folder)
    assert_close(ours, [photo(by_pil(path), 64, numbers) for path, numbers in zip(folder.paths, uniform, strict=True)], folder)


@pytest.mark.parametrize("limit", [0.0, 1 - 2**-24])
def test_the_limits_of_the_numbers_are_windows_too(folder, limit):
    uniform = np.full((len(folder), PHOTO_NUMBERS), limit, dtype=np.float32)
    assert_close(through_dali(folder, uniform), [by_pil_crop(path, uniform[0]) for path in folder.paths], folder)


def test_both_modules_show_the_same_training_pictures_in_every_epoch(folder):
    root = Path(folder.paths[0]).parents[2]
    settings = {"image_size": 64, "mean": [0.0] * 3, "std": [1.0] * 3, "batch_size_per_device": 8, "num_threads": 1, "seed": 2}
    dali = DALIDataModule(root, **settings).train_dataloader()
    twin = TorchDataModule(root, **settings | {"num_threads": None}).train_dataloader()
    shown = []
    for epoch in range(2):
        for loader in (dali, twin):
            loader.batch_sampler.set_epoch(epoch)
        for (ours, _), (theirs, _) in zip(dali, twin, strict=True):
            assert (255 * (ours - theirs)).abs().mean(dim=(1, 2, 3)).max() < 1.5
            shown.append(ours)
    assert not torch.equal(shown[0], shown[2])
