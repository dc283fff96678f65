"""Checkpoints that are whole or not there: written beside and renamed."""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from typing_extensions import override

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoints import LAST, PREVIOUS


class WholeFileCheckpointIO(TorchCheckpointIO):
    """Writes ``<name>.tmp`` in the same folder, flushes it to the disk, then renames: a reader never meets half a checkpoint.

    ``last.ckpt`` first becomes ``previous.ckpt``, so that two states exist should the disk lose the newest.
    (Lightning's own way goes through the system's temporary folder and copies from there.)

    Raises:
        UserError: the disk is full or the folder cannot be written; what was there before is still there.
    """

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None) -> None:
        target = Path(path)
        beside = target.with_name(f".{target.name}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            if target.name == LAST and target.exists():
                os.replace(target, target.with_name(PREVIOUS))
            os.replace(beside, target)
        except (OSError, RuntimeError) as error:  # torch wraps a full disk in a RuntimeError
            reason = getattr(error, "strerror", None) or _reason(target)
            beside.unlink(missing_ok=True)
            if reason is None:
                raise
            raise UserError(
                f"The checkpoint {target} cannot be written ({reason}): make room, or give another place with outputs=FOLDER."
            ) from error


def _reason(target: Path) -> str | None:
    free = shutil.disk_usage(target.parent).free
    return "the disk is full" if free < 2**20 else None


def room_for_checkpoints(folder: Path, size: int) -> None:
    """Refuses a disk that the first checkpoints would fill.

    Args:
        size: of one checkpoint, in bytes.

    Raises:
        UserError: not even one checkpoint and the one written beside it fit.
    """
    free = shutil.disk_usage(folder).free
    if free < 2 * size:
        raise UserError(
            f"{folder} has {free / 2**20:.1f} MiB left, and a checkpoint of this run takes {size / 2**20:.1f}: "
            "make room, or give another place with outputs=FOLDER."
        )
