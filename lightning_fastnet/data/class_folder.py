"""A folder with one subfolder of pictures a class, listed."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightning_fastnet.errors import UserError

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


def class_names(root: str | Path) -> list[str]:
    """The classes of the training set under ``root``: the sorted names of ``root/train``'s subfolders.

    Raises:
        UserError: ``root/train`` is missing, or a class in it holds no pictures.
    """
    folder = Path(root) / "train"
    names = _class_folders(folder)
    _refuse_empty(folder, names)
    return names


def _refuse_empty(folder: Path, names: list[str]) -> None:
    empty = [name for name in names if not _pictures(folder / name)]
    if len(empty) == len(names):
        raise _no_pictures(folder)
    if empty:
        raise UserError(f"The class {empty[0]!r} in {folder} holds no pictures of its own: remove its folder, or put pictures into it.")


def _class_folders(root: Path) -> list[str]:
    if not root.is_dir():
        raise UserError(f"The data folder {root} does not exist: give a folder that holds one subfolder of pictures a class.")
    return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))


def _pictures(folder: Path) -> list[str]:
    return sorted(
        os.path.abspath(entry.path) for entry in os.scandir(folder) if entry.name.lower().endswith(PICTURE_SUFFIXES) and entry.is_file()
    )


def _no_pictures(root: Path) -> UserError:
    return UserError(f"{root} holds no pictures: it needs one subfolder a class with {', '.join(PICTURE_SUFFIXES)} files in it.")


@dataclass(frozen=True)
class ClassFolder:
    """Pictures and their labels, in sorted order. ``folder[i]`` is what a DALI pipeline is fed for picture ``i``.

    Attributes:
        paths: absolute.
        classes: class names, sorted; the label is the position. Empty: pictures without classes.
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
        found = _class_folders(root)
        names = found if classes is None else classes
        if classes is None:
            _refuse_empty(root, found)
        unknown = [name for name in found if name not in names]
        if unknown:
            raise UserError(f"{root} has the class {unknown[0]!r}, which the training data lacks: remove it or add it there.")
        paths: list[str] = []
        labels: list[int] = []
        for name in found:
            pictures = _pictures(root / name)
            paths += pictures
            labels += [names.index(name)] * len(pictures)
        if not paths:
            raise _no_pictures(root)
        return cls(paths, np.array(labels, dtype=np.int64), names)

    @classmethod
    def read_flat(cls, root: str | Path) -> "ClassFolder":
        """Lists every picture under ``root``, at any depth, sorted by path; without classes, all labels are 0.

        Raises:
            UserError: the folder is missing or holds no pictures.
        """
        root = Path(root)
        if not root.is_dir():
            raise UserError(f"The data folder {root} does not exist: give a folder that holds pictures.")
        paths: list[str] = []
        seen: set[str] = set()
        for folder, below, _ in os.walk(root, followlinks=True):
            # a link can lead back up
            below[:] = [] if os.path.realpath(folder) in seen else [name for name in below if not name.startswith(".")]
            if os.path.realpath(folder) not in seen:
                seen.add(os.path.realpath(folder))
                paths += _pictures(Path(folder))
        if not paths:
            raise UserError(f"{root} holds no pictures: it needs {', '.join(PICTURE_SUFFIXES)} files in it or in its subfolders.")
        return cls(sorted(paths), np.zeros(len(paths), dtype=np.int64), [])

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        """The picture's path: what an error about it names."""
        return self.paths[index]

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        return np.frombuffer(os.fsencode(self.paths[index]), dtype=np.uint8), np.asarray(self.labels[index])
