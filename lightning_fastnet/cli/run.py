"""One run: its config settled, its folder decided, its ranks started."""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli.begin import Beginning, begin
from lightning_fastnet.cli.configs import PROGRAM
from lightning_fastnet.cli.recall import recall
from lightning_fastnet.cli.settle import settle
from lightning_fastnet.cli.value_types import check_values
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoints import make_last, newest_first
from lightning_fastnet.launch.devices import cpu_threads
from lightning_fastnet.launch.local_ranks import run_local_ranks
from lightning_fastnet.launch.outside import agree, outside_rank
from lightning_fastnet.launch.resume import CONFIG, METRICS, STATUS, saved_metrics
from lightning_fastnet.launch.run_folder import claim, release_empty

FOLDER = "run/folder"
"""Where a run's returned metrics say which folder they are from."""


class Interrupted(Exception):  # noqa: N818  # not an error
    """Ctrl-C ended a run; the message says how to go on.

    Attributes:
        metrics: what its ``metrics.json`` holds.
    """

    def __init__(self, message: str, metrics: dict[str, Any]) -> None:
        super().__init__(message)
        self.metrics = metrics


def run(config: DictConfig, overrides: list[str], folder: Path | None = None) -> dict[str, Any]:
    """Runs one composed config: on ranks of this machine that it starts, or here, as the rank that torchrun or srun made of us.

    Args:
        overrides: the ``key=value`` and the like that the config was composed with.
        folder: a sweep's place for this run; such a run never shares this process.

    Returns:
        What its ``metrics.json`` holds (the ranks from outside other than 0: nothing).

    Raises:
        Interrupted: by Ctrl-C, and all its ranks have ended.
        UserError, RankFailedError: it failed.
    """
    place = outside_rank()
    recalled = recall(config, overrides)
    config = recalled.config
    check_values(config, recalled.choices)
    settle(config, place)

    def decide() -> str:
        return begin(config, folder).to_json()

    beginning = Beginning.from_json(decide() if place is None else agree(place, decide))
    run_dir = Path(beginning.run_dir)
    speaks = place is None or place.rank == 0
    if beginning.finished is not None:
        if speaks:
            print(f"{config.recipe_name}: finished already, {run_dir}", file=sys.stderr, flush=True)
        return {**beginning.finished, FOLDER: str(run_dir)}
    config.run_dir, config.checkpoint = beginning.run_dir, beginning.checkpoint
    resolved = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    assert isinstance(resolved, DictConfig)
    resolved.overrides = recalled.overrides  # as they were typed, also where they point at other settings
    with claim(run_dir) if speaks else nullcontext():
        if speaks and beginning.resumed and beginning.checkpoint:
            make_last(Path(beginning.checkpoint))
        before = _Before(run_dir)
        try:
            if speaks:
                _announce(resolved, beginning)
            if place is None and (config.trainer.devices > 1 or folder is not None):
                run_local_ranks("lightning_fastnet.cli.rank", [str(run_dir / CONFIG)], config.trainer.devices, run_dir / "logs")
            else:
                _run_here(resolved, speaks)
        except UserError:
            if speaks and beginning.resumed:
                before.put_back()
            elif speaks:
                release_empty(run_dir, Path(config.outputs))
            raise
        except KeyboardInterrupt:
            metrics = {**saved_metrics(run_dir), FOLDER: str(run_dir)}
            finished = metrics.get(STATUS) == "finished"
            if not finished or folder is not None:
                goes_on = f"; to go on: {PROGRAM} resume={run_dir}" if newest_first(run_dir) and not finished else ""
                raise Interrupted(f"interrupted{goes_on}", metrics) from None
    return {**saved_metrics(run_dir), FOLDER: str(run_dir)} if speaks else {}


class _Before:
    """What a resumed run's folder said before; a resume that is refused before it wrote a checkpoint must leave it so."""

    def __init__(self, run_dir: Path) -> None:
        self._texts = {name: (run_dir / name).read_bytes() for name in (CONFIG, METRICS) if (run_dir / name).exists()}
        self._run_dir, self._newest = run_dir, newest_first(run_dir)[:1]

    def put_back(self) -> None:
        if newest_first(self._run_dir)[:1] == self._newest:
            for name, text in self._texts.items():
                (self._run_dir / name).write_bytes(text)


def _announce(config: DictConfig, beginning: Beginning) -> None:
    """Says where the run works, and puts its config there; a resumed run's metrics are first marked as those of a run that goes on."""
    run_dir = Path(beginning.run_dir)
    texts = {CONFIG: OmegaConf.to_yaml(config)}
    if (run_dir / METRICS).exists():
        texts = {METRICS: json.dumps({**saved_metrics(run_dir), STATUS: "running"}, indent=2), **texts}
    try:
        for name, text in texts.items():
            beside = run_dir / f".{name}.tmp"
            beside.write_text(text)
            beside.replace(run_dir / name)
    except OSError as error:
        raise UserError(f"{run_dir} cannot be written ({error.strerror}): make room, or give another place with outputs=FOLDER.") from error
    ranks = config.trainer.devices * config.trainer.num_nodes
    goes_on = f", going on from {Path(beginning.checkpoint).name}" if beginning.resumed and beginning.checkpoint else ""
    print(f"{config.recipe_name}: {ranks} {config.trainer.accelerator} rank(s), {run_dir}{goes_on}", file=sys.stderr, flush=True)


def _run_here(config: DictConfig, speaks: bool) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads(config.trainer.devices)))
    from lightning_fastnet.cli.rank import run_rank
    from lightning_fastnet.launch.signals import watch_signals

    if not run_rank(config, watch_signals(announce=speaks)):
        raise KeyboardInterrupt
