"""Class folders of pictures as a LightningDataModule, read by DALI."""

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from lightning_fastnet.data.augment import AUGMENTS
from lightning_fastnet.data.class_folder import ClassFolder
from lightning_fastnet.data.order import Loader
from lightning_fastnet.errors import UserError, require_lightning_trainer


class FolderDataModule(LightningDataModule):
    """Class folders ``root/train``, ``root/val`` and, if it is there, ``root/test`` (else ``val`` is tested on).

    Predicts the pictures of the first of ``root/predict``, ``root/test``, ``root/val`` and ``root`` that holds any, at any depth.
    Works without a Trainer too, as one rank: ``next(iter(module.train_dataloader()))``. A subclass
    says how the pictures of a split are read: :meth:`loader`.

    Args:
        root: the folder; None: the one that ``prepare`` makes.
        image_size: side of a picture as the network gets it, in pixels.
        channels: 1 (grey) or 3 (RGB).
        mean, std: of pixels in 0 to 1, one a channel.
        batch_size_per_device: pictures of a batch on one rank.
        sampling: of the training set: ``"shuffle"`` or ``"fixed_cycle"`` (the same batches every epoch).
        augment: ``"crop_flip"`` for photos: a random window to train, flipped half of the time, the centre to evaluate; ``"jitter"`` for
            small pictures, resized whole to the square: to train turned, scaled and shifted a little; ``"none"``: the same without.
        num_threads: workers a rank; None: the cores of the machine divided by its ranks.
        seed: of order and augmentation.
        prepare: makes the data where ``root`` is None, and returns the folder; called again it only says where it is.

    Raises:
        UserError: when a split is read that is missing, empty, or too small for the ranks and the batch.
    """

    def __init__(
        self,
        root: str | Path | None,
        *,
        image_size: int = 224,
        channels: int = 3,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
        batch_size_per_device: int = 64,
        sampling: str = "shuffle",
        augment: str = "crop_flip",
        num_threads: int | None = None,
        seed: int = 0,
        prepare: Callable[[], Path] | None = None,
    ) -> None:
        super().__init__()
        if channels not in (1, 3) or len(mean) != channels or len(std) != channels:
            raise UserError(
                f"channels={channels} with {len(mean)} means and {len(std)} deviations: give 1 or 3 channels and one of each a channel."
            )
        if sampling not in ("shuffle", "fixed_cycle"):
            raise UserError(f"sampling={sampling!r} is unknown: choose shuffle or fixed_cycle.")
        if augment not in AUGMENTS:
            raise UserError(f"augment={augment!r} is unknown: choose one of {', '.join(AUGMENTS)}.")
        if root is None and prepare is None:
            raise UserError("root is not given: name a folder that holds train/ and val/ with one subfolder of pictures a class.")
        for name, size in (("image_size", image_size), ("batch_size_per_device", batch_size_per_device)):
            if not isinstance(size, int) or size < 1:
                raise UserError(f"{name}={size!r} must be a whole number of at least 1.")
        self._root = None if root is None else Path(root)
        self.image_size, self.channels = image_size, channels
        self.mean, self.std = tuple(mean), tuple(std)
        self.batch_size_per_device = batch_size_per_device
        self.sampling, self.augment, self.seed = sampling, augment, seed
        self.num_threads = num_threads
        self._prepare = prepare
        self._folders: dict[str, ClassFolder] = {}
        self._classes: list[str] | None = None
        self._train_loader: Loader | None = None
        self._resumed: dict[str, Any] = {}

    @property
    def trainer(self) -> Trainer | None:
        """The Trainer that uses this; set by Lightning. One of ``pytorch_lightning`` is refused here, before it fails without a word."""
        return self._trainer

    @trainer.setter
    def trainer(self, trainer: Trainer | None) -> None:
        if trainer is not None:
            require_lightning_trainer(trainer, type(self).__name__)
        self._trainer = trainer

    @property
    def classes(self) -> list[str]:
        """Class names in the order of the labels: the training set's, or those that were set, as a checkpoint's.

        With names set ``train/`` is not needed to evaluate; a class folder that is not among them is refused.
        """
        if self._classes is None:
            self._classes = self._folder("train").classes
        return self._classes

    @classes.setter
    def classes(self, names: Sequence[str]) -> None:
        self._classes = list(names)
        self._folders.clear()

    @property
    def root(self) -> Path:
        """The folder that holds the splits."""
        if self._root is None:
            assert self._prepare is not None
            self._root = Path(self._prepare())
        return self._root

    @property
    def test_split(self) -> str:
        """``"test"``, or ``"val"`` where there is no folder of that name."""
        return "test" if (self.root / "test").is_dir() else "val"

    def prepare_data(self) -> None:
        """On one rank a machine, before the others look."""
        _ = self.root

    def train_dataloader(self) -> Loader:
        self._train_loader = loader = self.loader(self._folder("train"), training=True)
        if self._resumed:
            loader.load_state_dict(self._resumed)
            self._resumed = {}  # a loader that Lightning makes later in the run begins an epoch
        return loader

    def val_dataloader(self) -> Loader:
        return self.loader(self._folder("val"), training=False)

    def test_dataloader(self) -> Loader:
        return self.loader(self._folder(self.test_split), training=False)

    def predict_dataloader(self) -> Loader:
        """Every picture once, with label 0; result ``i`` of rank ``r`` of ``N`` ranks is that of ``predict_paths[r + i * N]``."""
        return self.loader(self._predict_folder, training=False)

    @property
    def predict_paths(self) -> list[str]:
        """What :meth:`predict_dataloader` shows, all ranks together, as absolute paths in sorted order."""
        return self._predict_folder.paths

    @property
    def _predict_folder(self) -> ClassFolder:
        if "predict" not in self._folders:
            for place in (self.root / "predict", self.root / "test", self.root / "val"):
                # a folder that holds nothing yet does not hide the next one
                with suppress(UserError):
                    self._folders["predict"] = ClassFolder.read_flat(place)
                    break
            else:
                self._folders["predict"] = ClassFolder.read_flat(self.root)
        return self._folders["predict"]

    def state_dict(self) -> dict[str, Any]:
        """The training loader's position. Lightning stores its own copy, but loses it where a module asks for the run's length early."""
        return {} if self._train_loader is None else dict(self._train_loader.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps the position for the training loader that is made next; Lightning calls this before it asks for one."""
        if self.trainer is None or self.trainer.state.fn == TrainerFn.FITTING:  # a test of the checkpoint resumes nothing
            self._resumed = dict(state_dict)

    @abstractmethod
    def loader(self, folder: ClassFolder, *, training: bool) -> Loader:
        """Batches ``(pictures, labels)`` of this rank."""

    def _folder(self, split: str) -> ClassFolder:
        if split not in self._folders:
            classes = self._classes if split == "train" else self.classes
            self._folders[split] = ClassFolder.read(self.root / split, classes)
        return self._folders[split]

    @property
    def _threads(self) -> int:
        if self.num_threads is not None:
            return self.num_threads
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        ranks_here = 1 if self.trainer is None else self.trainer.num_devices
        return max(1, cores // ranks_here)

    def _order(self, training: bool) -> dict[str, Any]:
        return {
            "rank": 0 if self.trainer is None else self.trainer.global_rank,
            "world_size": 1 if self.trainer is None else self.trainer.world_size,
            "sampling": self.sampling if training else "sequential",
            "last": "drop" if training else "exact",
            "seed": self.seed,
        }


class DALIDataModule(FolderDataModule):
    """Class folders, decoded and batched by a DALI pipeline.

    Args:
        device: where pictures are decoded: ``"gpu"``, ``"cpu"``, or ``"auto"``: on the GPU where the Trainer has one.
        **folder: what :class:`FolderDataModule` takes.

    Raises:
        UserError: DALI is not installed (it exists for Linux only), or as :class:`FolderDataModule`.
    """

    def __init__(self, root: str | Path | None, *, device: str = "auto", **folder: Any) -> None:
        super().__init__(root, **folder)
        if device not in ("auto", "gpu", "cpu"):
            raise UserError(f"device={device!r} is unknown: choose auto, gpu or cpu.")
        self.device = device

    def loader(self, folder: ClassFolder, *, training: bool) -> Loader:
        try:
            from lightning_fastnet.data.loader import DALILoader
            from lightning_fastnet.data.pipelines import photos, small_pictures
        except ModuleNotFoundError as error:
            raise UserError(
                "DALI is not installed: pip install 'lightning-fastnet[train]' on Linux; elsewhere use "
                "lightning_fastnet.data.torch_folder.TorchDataModule (on the command line data=digits_torch or data=image_folder_torch)."
            ) from error
        gpu = self._on_gpu()
        graph = partial(
            photos if self.augment == "crop_flip" else small_pictures,
            image_size=self.image_size,
            channels=self.channels,
            mean=self.mean,
            std=self.std,
            gpu=gpu is not None,
        )
        return DALILoader(
            graph,
            self.batch_size_per_device,
            samples=folder,
            augment=AUGMENTS[self.augment] if training else 0,
            device_id=gpu,
            num_threads=self._threads,
            **self._order(training),
        )

    def _on_gpu(self) -> int | None:
        root_device = torch.device("cpu") if self.trainer is None else self.trainer.strategy.root_device
        if self.device == "gpu" and root_device.type != "cuda":
            raise UserError(f"device='gpu' decodes on a GPU, but the Trainer runs on {root_device.type}: use device='auto'.")
        return root_device.index if root_device.type == "cuda" and self.device != "cpu" else None
