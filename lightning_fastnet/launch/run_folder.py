"""The folder of a run: its name, who decides it, and that only one process works in it."""

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lightning_fastnet.errors import UserError

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # torchrun --standalone's, longer than a name should be
SWEEPS = "sweeps"  # the folder in outputs/ that holds sweeps instead of a recipe's runs


def stamp(job_id: str | None = None) -> str:
    """``<date>_<time>_<job id or random>``, a name that nobody else takes in the same second."""
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{job_id or secrets.token_hex(3)}"


def new_run_folder(outputs: str | Path, recipe: str, job_id: str | None = None, task: str = "fit") -> Path:
    """Makes ``outputs/<recipe>/<date>_<time>_<job id or random>/`` with ``checkpoints/`` in it; other tasks than fit: ``..._<task>/``.

    Raises:
        UserError: the place cannot be written.
    """
    name = stamp(job_id) + ("" if task == "fit" else f"_{task}")
    return make_run_folder(Path(outputs) / recipe / name, task)


def make_run_folder(folder: Path, task: str = "fit") -> Path:
    """Makes ``folder``, and in a training run's ``checkpoints/``.

    Raises:
        UserError: it holds a run or anything else already, or the place cannot be written.
    """
    if (folder / "config.yaml").exists():
        raise UserError(f"{folder} holds a run already: go on with it by resume={folder}, or give another run_dir.")
    if folder.is_dir() and any(not inside.is_dir() for inside in folder.rglob("*")):
        raise UserError(f"{folder} is not empty, and a run needs a folder of its own: give another run_dir.")
    try:
        (folder / "checkpoints" if task == "fit" else folder).mkdir(parents=True, exist_ok=True)
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
    """Removes the folder of a run that was refused before it began, and the folders above it that were made for it.

    Only what such a run has made itself is removed, and no folder that holds anything else.
    """
    if any(folder.glob("checkpoints/*")) or any(folder.glob("metrics.*")):
        return
    for file in (folder / "config.yaml", *folder.glob("logs/rank*.log")):
        file.unlink(missing_ok=True)
    for inside in (folder / "logs", folder / "checkpoints"):
        with suppress(OSError):
            inside.rmdir()
    outputs = outputs.absolute()
    above = [parent for parent in folder.parents if parent == outputs or outputs in parent.parents]
    with suppress(OSError):  # other runs are in it
        for empty in (folder, *above):
            empty.rmdir()


def job_id(environ: Mapping[str, str] = os.environ) -> str | None:
    """The job's name where a scheduler or launcher gave one: SLURM's job id, or torchrun's ``--rdzv-id`` unless it is the default."""
    for variable in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        value = environ.get(variable)
        if value and value != "none":
            return value[:8] if _UUID.fullmatch(value) else value
    return None
