"""The folder of a run: its name, who decides it, and that only one process works in it."""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lightning_fastnet.errors import UserError

SWEEPS = "sweeps"  # the folder in outputs/ that holds sweeps instead of a recipe's runs


def stamp(job_id: str | None = None) -> str:
    """``<date>_<time>_<job id or random>``, a name that nobody else takes in the same second."""
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{job_id or secrets.token_hex(3)}"


def new_run_folder(outputs: str | Path, recipe: str, job_id: str | None = None) -> Path:
    """Makes ``outputs/<recipe>/<date>_<time>_<job id or random>/`` with ``checkpoints/`` in it.

    Raises:
        UserError: the place cannot be written.
    """
    return make_run_folder(Path(outputs) / recipe / stamp(job_id))


def make_run_folder(folder: Path) -> Path:
    """Makes ``folder`` with ``checkpoints/`` in it.

    Raises:
        UserError: it holds a run already, or the place cannot be written.
    """
    if (folder / "config.yaml").exists():
        raise UserError(f"{folder} holds a run already: go on with it by resume={folder}, or give another run_dir.")
    try:
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The run's folder {folder} cannot be made ({error.strerror}): give another place with outputs=FOLDER.") from error
    return folder.absolute()


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """While it is entered this process is the only one that works in a run's folder; its death, of whatever kind, is an end too.

    Where the file system knows no locks there is no check.

    Raises:
        UserError: another process is at work in it.
    """
    file = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another process is running in {folder}: wait for its end, or leave out resume for a new run.") from None
        yield
    finally:
        os.close(file)


def release_empty(folder: Path, outputs: Path) -> None:
    """Removes the folder of a run that was refused before it began, and the folders above it that were made for it."""
    if any((folder / "checkpoints").iterdir()) or any(folder.glob("metrics.*")):
        return
    for inside in sorted(folder.rglob("*"), reverse=True):
        inside.rmdir() if inside.is_dir() else inside.unlink()
    outputs = outputs.absolute()
    while folder == outputs or outputs in folder.parents:
        try:
            folder.rmdir()
        except OSError:  # other runs are in it
            return
        folder = folder.parent


def job_id(environ: Mapping[str, str] = os.environ) -> str | None:
    """The job's name where a scheduler or launcher gave one: SLURM's job id, or torchrun's ``--rdzv-id`` unless it is the default."""
    for variable in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        value = environ.get(variable)
        if value and value != "none":
            return value
    return None
