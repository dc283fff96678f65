"""The folder of a run: its name, and who decides it."""

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from lightning_fastnet.errors import UserError


def new_run_folder(outputs: str | Path, recipe: str, job_id: str | None = None) -> Path:
    """Makes ``outputs/<recipe>/<date>_<time>_<job id or random>/`` with ``checkpoints/`` in it.

    Raises:
        UserError: the place cannot be written.
    """
    folder = Path(outputs) / recipe / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{job_id or secrets.token_hex(3)}"
    try:
        (folder / "checkpoints").mkdir(parents=True)
    except OSError as error:
        raise UserError(f"The run's folder {folder} cannot be made ({error.strerror}): give another place with outputs=FOLDER.") from error
    return folder.absolute()


def job_id(environ: Mapping[str, str] = os.environ) -> str | None:
    """The job's name where a scheduler or launcher gave one: SLURM's job id, or torchrun's ``--rdzv-id`` unless it is the default."""
    for variable in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        value = environ.get(variable)
        if value and value != "none":
            return value
    return None
