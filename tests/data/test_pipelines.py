"""What DALI makes of a picture is what PIL, torchvision and torch make of it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample
from torchvision.transforms import v2

from lightning_fastnet.data.augment import JITTER_NUMBERS
from lightning_fastnet.data.class_folder import ClassFolder

pytest.importorskip("nvidia.dali")

from lightning_fastnet.data.loader import DALILoader
from lightning_fastnet.data.pipelines import small_pictures


@pytest.fixture(scope="module")
def folder(digits) -> ClassFolder:
    """50 digits of all classes."""
    whole = ClassFolder.read(digits / "val")
    return ClassFolder(whole.paths[::20], whole.labels[::20], whole.classes)


def through_dali(folder: ClassFolder, image_size: int, uniform: Tensor | None = None, mean=(0.0,), std=(1.0,)) -> Tensor:
    """All pictures of a folder as one batch; by default as pixels in 0 to 1."""

    class Samples:
        def __len__(self) -> int:
            return len(folder)

        def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
            return folder[index] if uniform is None else (*folder[index], uniform[index].numpy())

    graph = partial(small_pictures, image_size=image_size, channels=len(mean), mean=mean, std=std, gpu=False)
    ((pictures, labels),) = DALILoader(graph, len(folder), samples=Samples(), sampling="sequential")
    assert labels.tolist() == folder.labels.tolist()
    return pictures


def by_pil(folder: ClassFolder, mode: str = "L") -> Tensor:
    """The same pictures, in 0 to 1, ``(N, C, H, W)``, in float64."""
    return torch.stack([v2.functional.pil_to_tensor(Image.open(path).convert(mode)) for path in folder.paths]).double() / 255


def coloured(root: Path, suffix: str = "png", size: tuple[int, int] = (28, 28)) -> ClassFolder:
    """Four pictures of smooth colours."""
    (root / "grün").mkdir()
    row, column = np.indices(size)
    for number in range(4):
        channels = [128 + 127 * np.sin((k + 1) * row / 9 + (number + 1) * column / 11 + k) for k in range(3)]
        Image.fromarray(np.stack(channels, -1).astype(np.uint8)).save(root / "grün" / f"{number}.{suffix}")
    return ClassFolder.read(root)


# ---- decoding and normalising --------------------------------------------------------------------------------------------------------


def test_grey_pixels_are_exact_and_normalised(folder):
    ours = through_dali(folder, 28, mean=(0.1307,), std=(0.3081,))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), (by_pil(folder) - 0.1307) / 0.3081, rtol=0, atol=1e-6)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp", "tiff"])
def test_colours_of_any_kind_of_file_are_pils_each_with_its_own_mean_and_deviation(tmp_path, suffix):
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    folder = coloured(tmp_path, suffix)
    expected = (by_pil(folder, "RGB") - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    torch.testing.assert_close(through_dali(folder, 28, mean=mean, std=std).double(), expected, rtol=0, atol=1e-6)


def test_grey_files_fill_three_channels(folder):
    ours = through_dali(folder, 28, mean=(0.0,) * 3, std=(1.0,) * 3)
    torch.testing.assert_close(ours.double(), by_pil(folder, "RGB"), rtol=0, atol=1e-6)


def test_coloured_files_become_pils_grey(tmp_path):
    folder = coloured(tmp_path)
    assert 255 * (through_dali(folder, 28).double() - by_pil(folder)).abs().max() < 1.01  # rounded to whole levels, halves either way


# ---- size ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("image_size", [14, 20, 32, 56])
def test_another_size_is_torchvisions_antialiased_resize(folder, image_size):
    error = 255 * (through_dali(folder, image_size).double() - v2.Resize([image_size] * 2, antialias=True)(by_pil(folder))).abs()
    assert error.mean() < 0.5  # of 255 levels; without antialiasing 3.5 (20 pixels) and 6.7 (14 pixels)
    assert error[..., 1:-1, 1:-1].max() < 3  # at the border the two filters weigh the outside differently


def test_an_oblong_picture_is_brought_to_a_square_whole(tmp_path):
    folder = coloured(tmp_path, size=(40, 30))
    error = 255 * (through_dali(folder, 24).double() - v2.Resize([24, 24], antialias=True)(by_pil(folder))).abs()
    assert error.mean() < 1


# ---- jitter --------------------------------------------------------------------------------------------------------------------------


def by_affine_grid(pictures: Tensor, uniform: Tensor) -> Tensor:
    """The jitter as torch's own grid_sample does it: turn up to 10 degrees, scale 0.9 to 1.1, shift 2 pixels of 28."""
    turn, size, *shift = (2 * uniform.double() - 1).T
    cosine, sine = (1 + 0.1 * size) * torch.cos(torch.deg2rad(10 * turn)), (1 + 0.1 * size) * torch.sin(torch.deg2rad(10 * turn))
    right, down = (2 * 2 / 28 * part for part in shift)  # grid_sample's pictures are 2 wide
    matrix = torch.stack([torch.stack([cosine, -sine, right], -1), torch.stack([sine, cosine, down], -1)], 1)
    return grid_sample(pictures, affine_grid(matrix, list(pictures.shape), align_corners=False), align_corners=False)


@pytest.mark.parametrize("image_size", [28, 42])
def test_jitter_is_the_affine_map_that_its_numbers_say(folder, image_size):
    uniform = torch.rand(len(folder), JITTER_NUMBERS)
    uniform[:8] = torch.eye(4).repeat(2, 1)
    uniform[4:8] = 1 - uniform[4:8]  # the limits
    plain = through_dali(folder, image_size).double()
    error = 255 * (through_dali(folder, image_size, uniform).double() - by_affine_grid(plain, uniform)).abs()
    assert error.max() < 1.01  # DALI rounds to whole levels


def test_the_middle_of_the_numbers_is_no_jitter(folder):
    assert torch.equal(through_dali(folder, 28, torch.full((len(folder), JITTER_NUMBERS), 0.5)), through_dali(folder, 28))


@pytest.mark.parametrize("image_size", [28, 56])
def test_jitter_changes_a_picture_and_keeps_its_shape(folder, image_size):
    plain, jittered = through_dali(folder, image_size), through_dali(folder, image_size, torch.rand(len(folder), JITTER_NUMBERS))
    assert jittered.shape == plain.shape
    assert (jittered - plain).abs().mean(dim=(1, 2, 3)).min() > 0.01
    brightness = jittered.mean(dim=(1, 2, 3)) / plain.mean(dim=(1, 2, 3))
    assert 0.7 < brightness.min() <= brightness.max() < 1.3  # 0.9 to 1.1 in size is 0.83 to 1.23 in area

    def centre(pictures: Tensor) -> Tensor:
        weights = pictures[:, 0] / pictures.sum(dim=(2, 3))[..., None]
        return torch.stack([weights.sum(2) @ torch.arange(float(image_size)), weights.sum(1) @ torch.arange(float(image_size))])

    assert 28 / image_size * (centre(jittered) - centre(plain)).abs().max() < 4  # 2 pixels of shift, a little from turn and scale


def test_a_photo_is_not_turned_by_its_exif_orientation(tmp_path):
    """torchvision's ImageFolder does not turn it either."""
    (tmp_path / "a").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    ramp = np.tile(np.arange(0, 252, 9, dtype=np.uint8), (28, 1))
    Image.fromarray(ramp).save(tmp_path / "a" / "1.jpg", exif=exif, quality=95)
    stored = np.asarray(Image.open(tmp_path / "a" / "1.jpg")) / 255
    assert np.abs(through_dali(ClassFolder.read(tmp_path), 28)[0, 0].numpy() - stored).max() < 0.02
