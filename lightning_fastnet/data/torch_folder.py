"""The same folders in the same order without DALI: PIL and torchvision."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.datamodule import FolderDataModule
from lightning_fastnet.data.order import BatchOrder
from lightning_fastnet.errors import UserError


class TorchDataModule(FolderDataModule):
    """:class:`~lightning_fastnet.data.datamodule.DALIDataModule`'s twin for machines without DALI (macOS), and to compare with.

    Pictures are decoded in the rank's own process unless ``num_threads`` asks for DataLoader workers: a process that has gloo's and
    OpenMP's threads is not safely forked. The order of the pictures is the same; the jitter has the same limits and other numbers.
    It brings its own part for each rank: give a Trainer of several ranks ``use_distributed_sampler=False``.

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

    def loader(self, folder: ClassFolder, *, training: bool) -> Iterable[Any]:
        order = BatchOrder(len(folder), self.batch_size_per_device, **self._order(training))
        workers = self.num_threads or 0
        dataset = _Pictures(folder, self._transform(training))
        return DataLoader(
            dataset,
            batch_sampler=order,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def _transform(self, training: bool) -> Any:
        from torchvision.transforms import v2

        size = [self.image_size, self.image_size]
        steps: list[Any] = [v2.PILToTensor(), v2.Resize(size, antialias=True)]
        if training and self.jitter:
            steps.append(v2.RandomAffine(10, translate=(2 / 28, 2 / 28), scale=(0.9, 1.1), interpolation=v2.InterpolationMode.BILINEAR))
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(self.mean, self.std)]
        return v2.Compose(steps)


class _Pictures(Dataset[tuple[Tensor, Any]]):
    def __init__(self, folder: ClassFolder, transform: Any) -> None:
        self._folder, self._transform = folder, transform
        self._mode = "L" if len(transform.transforms[-1].mean) == 1 else "RGB"

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, index: int) -> tuple[Tensor, np.int64]:
        from PIL import Image

        with Image.open(self._folder.paths[index]) as picture:
            return self._transform(picture.convert(self._mode)), self._folder.labels[index]
