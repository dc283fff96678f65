"""Where a run works and what it goes on from: decided once, by one process, before any rank begins."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli.recall import named_run
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.resume import CONFIG, difference, find_run, finished, other_run, readable_checkpoint, saved_config
from lightning_fastnet.launch.run_folder import job_id, make_run_folder, new_run_folder


@dataclass(frozen=True)
class Beginning:
    """A run's folder; the checkpoint it goes on from, or None; the metrics of a run that has ended already, or None."""

    run_dir: str
    checkpoint: str | None = None
    finished: dict[str, Any] | None = None
    resumed: bool = False

    def to_json(self) -> str:
        return json.dumps(self.__dict__)

    @classmethod
    def from_json(cls, text: str) -> "Beginning":
        return cls(**json.loads(text))


def begin(config: DictConfig, folder: Path | None = None) -> Beginning:
    """Makes or finds the run's folder.

    Args:
        config: settled; its ``task``, ``resume``, ``ckpt``, ``outputs`` and ``run_dir`` decide.
        folder: the place of a new run in a sweep; None: one of its own in ``outputs``.

    Raises:
        UserError: the folder cannot be made, or there is no checkpoint where one is needed.
    """
    if config.task != "fit":
        return Beginning(_new(config, folder), _checkpoint_of(config))
    run = named_run(config)
    if config.resume == "auto" and config.run_dir is not None and (Path(config.run_dir) / CONFIG).exists():
        run = Path(config.run_dir)
    elif config.resume == "auto":
        run = find_run(Path(config.outputs), described(config))
        if run is None and (other := other_run(Path(config.outputs), described(config))):
            print(f"resume=auto: no run with these settings, a new one begins; with others there is {other}", file=sys.stderr, flush=True)
    if run is None:
        return Beginning(_new(config, folder))
    metrics = finished(run, described(config))
    checkpoint = None if metrics else readable_checkpoint(run)
    if checkpoint is not None:
        _refuse_other_optimizer(saved_config(run), described(config))
    return Beginning(str(run.absolute()), str(checkpoint) if checkpoint else None, metrics, resumed=True)


def _refuse_other_optimizer(saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The optimizer's settings lie in the checkpoint too, and go before the config's: a change would have no effect."""
    curve = ("warmup_epochs", "decay", "warmup_start", "end_lr", "power", "milestones", "gamma")  # of the schedule, which is made anew
    there, here = ({key: value for key, value in (one.get("optimizer") or {}).items() if key not in curve} for one in (saved, wanted))
    if different := difference(there, here, "optimizer."):
        key, before, now = different
        raise UserError(
            f"{key}={now}, but the run that goes on has {before}, and an optimizer keeps its settings: begin a new run for others."
        )


def described(config: DictConfig) -> dict[str, Any]:
    """The config resolved, with a placeholder where the run's folder is not decided yet."""
    config = config.copy()
    config.run_dir = "<run_dir>"
    resolved = OmegaConf.to_container(config, resolve=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def _new(config: DictConfig, folder: Path | None) -> str:
    if config.run_dir is not None:
        run = make_run_folder(Path(str(config.run_dir)), config.task)
    elif folder is not None:
        run = make_run_folder(folder, config.task)
    else:
        run = new_run_folder(config.outputs, config.recipe_name, job_id(), config.task)
    return str(run)


def _checkpoint_of(config: DictConfig) -> str:
    file = Path(str(config.ckpt)).absolute()
    if not file.is_dir():
        return str(file)
    found = readable_checkpoint(file)
    if found is None:
        raise UserError(f"{file} has no checkpoint that can be read.")
    return str(found)
