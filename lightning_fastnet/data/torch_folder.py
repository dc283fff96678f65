"""The same folders in the same order without DALI: PIL and torchvision."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample
from torch.utils.data import DataLoader, Dataset, default_collate

from lightning_fastnet.data.augment import AUGMENTS, crop_window, shorter_side
from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.datamodule import FolderDataModule
from lightning_fastnet.data.order import BatchOrder, Loader, augmentation
from lightning_fastnet.data.unreadable import reason_of_pil, unreadable
from lightning_fastnet.errors import UserError


class TorchDataModule(FolderDataModule):
    """:class:`~lightning_fastnet.data.datamodule.DALIDataModule`'s twin for machines without DALI (macOS), and to compare with.

    Pictures are decoded in the rank's own process unless ``num_threads`` asks for DataLoader workers: a process that has gloo's and
    OpenMP's threads is not safely forked. The order of the pictures and the numbers that change them are the same.

    Args:
        device: ``"auto"`` or ``"cpu"``: there is no other here, PIL decodes on the host.
        **folder: what :class:`~lightning_fastnet.data.datamodule.FolderDataModule` takes.

    Raises:
        UserError: as ``FolderDataModule``, and for ``device="gpu"``.
    """

    def __init__(self, root: str | Path | None, *, device: str = "auto", **folder: Any) -> None:
        super().__init__(root, **folder)
        if device not in ("auto", "cpu"):
            raise UserError(f"device={device!r}: torchvision decodes on the host; use device='auto', or DALIDataModule.")

    def loader(self, folder: ClassFolder, *, training: bool) -> Loader:
        order = BatchOrder(len(folder), self.batch_size_per_device, **self._order(training))
        pictures = _Pictures(
            folder,
            image_size=self.image_size,
            mean=self.mean,
            std=self.std,
            augment=self.augment,
            training=training,
            seed=self.seed,
        )
        return TorchLoader(pictures, order, workers=self.num_threads or 0)


class TorchLoader:
    """A ``DataLoader`` whose epochs begin, stop and resume as :class:`~lightning_fastnet.data.loader.DALILoader`'s do.

    Args:
        dataset: takes pairs ``(epoch, index)``.
        order: which samples make up which batch.
        workers: processes that read; 0: this one.

    Limits: one iteration at a time (UserError). A picture that cannot be read is named (UserError).
    """

    def __init__(self, dataset: Dataset[Any], order: BatchOrder, workers: int = 0) -> None:
        self.batch_sampler, self.batch_size = order, order.batch_size
        self._epoch = _Epoch()
        self._loader = DataLoader(
            dataset,
            batch_sampler=self._epoch,
            num_workers=workers,
            persistent_workers=workers > 0,
            collate_fn=_collate,
            # its own: to make an iterator must not draw from the random numbers of the training
            generator=torch.Generator(),
        )

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        epoch = self.batch_sampler.epoch
        iteration, batches = self.batch_sampler.begin()
        self._epoch.batches = ([(epoch, index) for index in batch] for batch in batches)
        for batch in self._loader:
            if isinstance(batch, UserError):
                raise batch
            self.batch_sampler.hand_out(iteration)
            yield batch

    def state_dict(self) -> dict[str, int | str]:
        """How far the training loop got: plain numbers and words, the same on every rank."""
        return self.batch_sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where ``state`` was saved: see :meth:`BatchOrder.load_state_dict`, also for what is refused (UserError)."""
        self.batch_sampler.load_state_dict(state)


class _Epoch:
    """The batches of the epoch under way, as a ``DataLoader`` wants them."""

    batches: Iterator[list[tuple[int, int]]] = iter(())

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return self.batches


def _collate(samples: list[Any]) -> Any:
    """A batch, or the first error: raised in a worker, torch would wrap its sentence into a traceback."""
    return next((sample for sample in samples if isinstance(sample, UserError)), None) or default_collate(samples)


class _Pictures(Dataset[Any]):
    def __init__(
        self,
        folder: ClassFolder,
        *,
        image_size: int,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        augment: str,
        training: bool,
        seed: int,
    ) -> None:
        self._folder, self._size, self._mean, self._std = folder, image_size, mean, std
        self._augment, self._training, self._seed = augment, training, seed

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, item: tuple[int, int]) -> tuple[Tensor, np.int64] | UserError:
        from torchvision.transforms.v2 import functional

        epoch, index = item
        numbers = AUGMENTS[self._augment] if self._training else 0
        uniform = augmentation([index], numbers, self._seed, epoch)[0] if numbers else None
        pixels = self._read(index)
        if isinstance(pixels, UserError):
            return pixels
        change = photo if self._augment == "crop_flip" else small_picture
        picture = functional.to_dtype(change(pixels, self._size, uniform), torch.float32, scale=True)
        return functional.normalize(picture, self._mean, self._std), self._folder.labels[index]

    def _read(self, index: int) -> Tensor | UserError:
        from PIL import Image
        from torchvision.transforms.v2 import functional

        try:
            with Image.open(self._folder.paths[index]) as picture:
                pixels: Tensor = functional.pil_to_tensor(picture.convert("L" if len(self._mean) == 1 else "RGB"))
        # OSError: also an unknown kind; SyntaxError: a broken PNG
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            return unreadable(self._folder.name(index), reason_of_pil(error))
        return pixels


def photo(picture: Tensor, image_size: int, uniform: NDArray[np.float32] | None) -> Tensor:
    """One picture as :func:`~lightning_fastnet.data.pipelines.photos` makes it: the window of its numbers, or the centre.

    Shapes:
        picture ``(channels, any, any)``, result ``(channels, image_size, image_size)``, uint8; uniform ``(5,)`` in [0, 1).
    """
    from torchvision.transforms.v2 import functional

    size = [image_size, image_size]
    if uniform is None:
        shown: Tensor = functional.center_crop(functional.resize(picture, [shorter_side(image_size)], antialias=True), size)
        return shown
    _, height, width = picture.shape
    shown = functional.resized_crop(picture, *crop_window(height, width, uniform), size, antialias=True)
    return shown.flip(-1) if uniform[4] < 0.5 else shown


def small_picture(picture: Tensor, image_size: int, uniform: NDArray[np.float32] | None) -> Tensor:
    """One whole picture as :func:`~lightning_fastnet.data.pipelines.small_pictures` makes it.

    The numbers choose an affine map about the centre; None: no map.

    Shapes:
        picture ``(channels, any, any)``, result ``(channels, image_size, image_size)``, uint8; uniform ``(4,)`` in [0, 1): turn, size,
        right, down.
    """
    from torchvision.transforms.v2 import functional

    picture = functional.resize(picture, [image_size, image_size], antialias=True)
    if uniform is None:
        return picture
    turn, size, right, down = (2.0 * float(number) - 1.0 for number in uniform)
    angle, scale, step = np.deg2rad(10.0 * turn), 1.0 + 0.1 * size, 2 * 2 / 28  # affine_grid counts a picture as 2 wide
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    matrix = torch.tensor([[[cosine, -sine, step * right], [sine, cosine, step * down]]], dtype=torch.float32)
    grid = affine_grid(matrix, [1, *picture.shape], align_corners=False)
    return grid_sample(picture[None].float(), grid, align_corners=False)[0].round().to(torch.uint8)
