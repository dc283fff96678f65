"""A folder with one subfolder of pictures a class, listed."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightning_fastnet.errors import UserError

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


@dataclass(frozen=True)
class ClassFolder:
    """Pictures and their labels, in sorted order. ``folder[i]`` is what a DALI pipeline is fed for picture ``i``.

    Attributes:
        paths: absolute.
        classes: class names, sorted; the label is the position.
    """

    paths: list[str]
    labels: NDArray[np.int64]
    classes: list[str]

    @classmethod
    def read(cls, root: str | Path, classes: list[str] | None = None) -> "ClassFolder":
        """Lists ``root/<class>/<picture>``.

        Args:
            classes: the names that give the labels (those of the training set); None: the subfolders found here.

        Raises:
            UserError: the folder is missing or holds no pictures, or a class is not among ``classes``.
        """
        root = Path(root)
        if not root.is_dir():
            raise UserError(f"The data folder {root} does not exist: give a folder that holds one subfolder of pictures a class.")
        found = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
        names = found if classes is None else classes
        unknown = [name for name in found if name not in names]
        if unknown:
            raise UserError(f"{root} has the class {unknown[0]!r}, which the training data lacks: remove it or add it there.")
        paths: list[str] = []
        labels: list[int] = []
        for name in found:
            pictures = sorted(
                os.path.abspath(entry.path)
                for entry in os.scandir(root / name)
                if entry.name.lower().endswith(PICTURE_SUFFIXES) and entry.is_file()
            )
            paths += pictures
            labels += [names.index(name)] * len(pictures)
        if not paths:
            raise UserError(f"{root} holds no pictures: it needs one subfolder a class with {', '.join(PICTURE_SUFFIXES)} files in it.")
        return cls(paths, np.array(labels, dtype=np.int64), names)

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        """The picture's path: what an error about it names."""
        return self.paths[index]

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        return np.frombuffer(os.fsencode(self.paths[index]), dtype=np.uint8), np.asarray(self.labels[index])
