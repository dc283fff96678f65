"""Real data sets as class folders, as the data modules read them.

    python -m benchmarks.unpack_data mnist   ../shared/data/mnist   data/mnist      # idx files: 60,000 and 10,000 digits as PNG
    python -m benchmarks.unpack_data cifar10 ../shared/data/cifar10 data/cifar10    # a tar of JPEGs: 50,000 and 10,000 photos
    python -m benchmarks.unpack_data mnist   ../shared/data/mnist   data/few --per-class 100

Writes TARGET/train/CLASS/* and TARGET/val/CLASS/* beside TARGET and renames: TARGET is there whole or not at all. A second call
finds it and does nothing. What is read is compared with SOURCE/SHA256SUMS first.
"""

import argparse
import gzip
import hashlib
import shutil
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from lightning_fastnet.errors import UserError


def check_sums(source: Path, names: list[str]) -> None:
    """Compares files with ``source/SHA256SUMS``; UserError where one is missing, differs or has no sum."""
    sums = source / "SHA256SUMS"
    if not sums.is_file():
        raise UserError(f"{sums} does not exist: name the folder that holds the data set and its SHA256SUMS.")
    listed = {PurePosixPath(name).as_posix(): digest for digest, name in (line.split() for line in sums.read_text().splitlines() if line)}
    for name in names:
        if not (source / name).is_file():
            raise UserError(f"{source / name} does not exist: fetch the data set anew.")
        if name not in listed:
            raise UserError(f"{sums} has no line for {name}: fetch the data set anew.")
        if hashlib.sha256((source / name).read_bytes()).hexdigest() != listed[name]:
            raise UserError(f"{source / name} does not have the sum of {sums.name}: fetch it anew.")


def read_idx(file: Path) -> NDArray[np.uint8]:
    """An array of an idx file (gzip): two zero bytes, type 8 (uint8), the number of sides, each side as 4 bytes, the values."""
    raw = gzip.decompress(file.read_bytes())
    sides = np.frombuffer(raw, dtype=">u4", count=raw[3], offset=4).tolist()
    if raw[:3] != b"\0\0\x08" or len(raw) != 4 + 4 * raw[3] + int(np.prod(sides)):
        raise UserError(f"{file} is not an idx file of bytes: fetch it anew.")
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3]).reshape(sides)


def write_mnist(source: Path, target: Path, per_class: int | None) -> None:
    """``target/SPLIT/DIGIT/NUMBER.png``, the number that of the picture in its idx file."""
    from PIL import Image

    parts = {"train": "train", "val": "t10k"}
    files = {split: (f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz") for split, part in parts.items()}
    check_sums(source, [name for names in files.values() for name in names])
    for split, (pictures, labels) in files.items():
        pixels, classes = read_idx(source / pictures), read_idx(source / labels)
        for digit in range(10):
            folder = target / split / str(digit)
            folder.mkdir(parents=True)
            for number in np.flatnonzero(classes == digit)[:per_class]:
                Image.fromarray(pixels[number]).save(folder / f"{number:05d}.png")


def write_cifar10(source: Path, target: Path, per_class: int | None) -> None:
    """``target/SPLIT/CLASS/NUMBER.jpg``, the tar's files as they are; its ``test`` is our ``val``."""
    check_sums(source, ["cifar10-jpeg.tar.xz"])
    written: Counter[Path] = Counter()
    with tarfile.open(source / "cifar10-jpeg.tar.xz", "r|xz") as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            if not member.isfile() or len(parts) != 3 or parts[0] not in ("train", "test") or ".." in parts:
                continue
            folder = target / {"train": "train", "test": "val"}[parts[0]] / parts[1]
            content = tar.extractfile(member)
            if content is None or (per_class is not None and written[folder] == per_class):
                continue
            folder.mkdir(parents=True, exist_ok=True)
            (folder / parts[2]).write_bytes(content.read())
            written[folder] += 1


WRITERS: dict[str, Callable[[Path, Path, int | None], None]] = {"mnist": write_mnist, "cifar10": write_cifar10}


def unpack(name: str, source: Path, target: Path, per_class: int | None = None) -> bool:
    """Writes a data set as class folders, unless they are there.

    Args:
        name: ``"mnist"`` or ``"cifar10"``.
        per_class: at most so many pictures a class in each split; None: all.

    Returns:
        Whether it was written now.

    Raises:
        UserError: the source is missing or damaged, or the target cannot be written.
    """
    if target.exists():
        if not (target / "train").is_dir() or not (target / "val").is_dir():
            raise UserError(f"{target} exists and has no train/ and val/: name another target, or remove it.")
        return False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise UserError(f"{target} cannot be written ({error.strerror or error}): name a target in a folder that can.") from error
    try:
        WRITERS[name](source, beside, per_class)
        beside.chmod(0o755)
        beside.rename(target)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise UserError(f"{source} cannot be unpacked ({error}): fetch the data set anew.") from error
    except OSError as error:
        if not target.is_dir():  # else another process was first
            raise UserError(f"{target} cannot be written ({error.strerror or error}): make room, or name another target.") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return True


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(WRITERS))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--per-class", type=int, metavar="N", help="at most N pictures a class in each split")
    given = parser.parse_args(arguments)
    if given.per_class is not None and given.per_class < 1:
        parser.error(f"--per-class {given.per_class}: give at least 1")
    try:
        written = unpack(given.name, given.source, given.target, given.per_class)
    except UserError as error:
        sys.exit(str(error))
    print(f"{given.target}: {'written' if written else 'there already'}")


if __name__ == "__main__":
    main()
