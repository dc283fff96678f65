"""A run's checkpoints: which there are, which are whole, what is in them."""

import os
import pickle
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightning_fastnet.errors import UserError

LAST, PREVIOUS = "last.ckpt", "previous.ckpt"


def newest_first(run_dir: Path) -> list[Path]:
    """A run's checkpoints, the last written first."""
    files = [file for file in (run_dir / "checkpoints").glob("*.ckpt") if file.is_file()]
    return sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True)


def make_last(file: Path) -> None:
    """Puts a checkpoint in the place of ``last.ckpt``, and leaves it where it is.

    A run that goes on from another one does so because the last is damaged; the next save would move that to ``previous.ckpt``.
    """
    last = file.with_name(LAST)
    if file.name == LAST:
        return
    beside = last.with_name(f".{LAST}.tmp")
    beside.unlink(missing_ok=True)
    try:
        os.link(file, beside)
    except OSError:  # a file system without links
        shutil.copyfile(file, beside)
    os.replace(beside, last)


def read_checkpoint(file: Path, mmap: bool = False) -> dict[str, Any]:
    """A checkpoint's contents, on the host. Plain containers only: nothing in the file is executed.

    Args:
        mmap: leave the tensors on the disk until they are used.

    Raises:
        UserError: it is not there, not whole, or holds more than plain containers.
    """
    import torch

    if not file.is_file():
        raise UserError(f"There is no checkpoint {file}.")
    damaged = UserError(f"The checkpoint {file} is damaged: use another one of the run.")
    if not _checksums_are_right(file):
        raise damaged
    try:
        checkpoint = torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        raise UserError(f"The checkpoint {file} holds more than tensors and plain containers, and is not loaded.") from error
    except Exception as error:  # a header that the checksums do not cover
        raise damaged from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{file} is not a checkpoint of a run: it has no state_dict.")
    return checkpoint


def _checksums_are_right(file: Path) -> bool:
    """Of all that is stored; ``torch.load`` does not look at them, and takes an entry with MS-DOS' directory bit for an empty one."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is None and not any(entry.external_attr & 0x10 for entry in archive.infolist())
    except Exception:  # zipfile answers damage with exceptions of seven kinds
        return False


def relocate(callbacks: dict[str, Any], folder: Path) -> None:
    """Rewrites the paths in saved callbacks' states, in place, for checkpoints that lie in ``folder`` now.

    Lightning's ModelCheckpoint forgets the best score when its folder has another name, and then overwrites the best with a worse one.
    """
    for state in callbacks.values():
        before = state.get("dirpath") if isinstance(state, dict) else None
        if before and str(before) != str(folder):
            state.update(_with_path(state, str(before), str(folder)))


def _with_path(node: Any, before: str, now: str) -> Any:
    if isinstance(node, dict):
        return {_with_path(key, before, now): _with_path(value, before, now) for key, value in node.items()}
    return node.replace(before, now, 1) if isinstance(node, str) and node.startswith(before) else node


def check_fits(file: Path, saved: dict[str, Any], model: dict[str, Any]) -> None:
    """Compares a checkpoint's ``state_dict`` with a model's, by name and shape.

    Raises:
        UserError: they differ; names the first difference.
    """
    difference = next(_differences(saved, model), None)
    if difference:
        raise UserError(
            f"The checkpoint {file} is of another model: {difference}; give the model, data and sizes that it was trained with."
        )


def _differences(saved: dict[str, Any], model: dict[str, Any]) -> Iterator[str]:
    for name, tensor in model.items():
        if name not in saved:
            yield f"it has no {name}"
        elif saved[name].shape != tensor.shape:
            yield f"{name} has shape {tuple(saved[name].shape)}, this model's has {tuple(tensor.shape)}"
    yield from (f"this model has no {name}" for name in saved if name not in model)
