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
from lightning_fastnet.launch.devices import cpu_threads
from lightning_fastnet.launch.local_ranks import run_local_ranks
from lightning_fastnet.launch.outside import agree, outside_rank
from lightning_fastnet.launch.run_folder import claim, release_empty

CONFIG, METRICS, STATUS = "config.yaml", "metrics.json", "run/status"
FOLDER = "run/folder"
"""Where a run's returned metrics say which folder they are from."""


class Interrupted(Exception):  # noqa: N818  # not an error
    """Ctrl-C ended a run; the message says how to go on."""


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
        try:
            if speaks:
                _announce(resolved, beginning)
            if place is None and (config.trainer.devices > 1 or folder is not None):
                run_local_ranks("lightning_fastnet.cli.rank", [str(run_dir / CONFIG)], config.trainer.devices, run_dir / "logs")
            else:
                _run_here(resolved, speaks)
        except UserError:
            if speaks and not beginning.resumed:
                release_empty(run_dir, Path(config.outputs))
            raise
        except KeyboardInterrupt:
            if _metrics(run_dir).get(STATUS) != "finished":
                checkpoint = any((run_dir / "checkpoints").glob("*.ckpt"))
                raise Interrupted(f"interrupted; to go on: {PROGRAM} resume={run_dir}" if checkpoint else "interrupted") from None
    return {**_metrics(run_dir), FOLDER: str(run_dir)} if speaks else {}


def _announce(config: DictConfig, beginning: Beginning) -> None:
    run_dir = Path(beginning.run_dir)
    for name, text in ((CONFIG, OmegaConf.to_yaml(config)), (METRICS, json.dumps({**_metrics(run_dir), STATUS: "running"}, indent=2))):
        if name == METRICS and not (run_dir / METRICS).exists():
            continue  # only a resumed run has them
        beside = run_dir / f".{name}.tmp"
        try:
            beside.write_text(text)
            beside.replace(run_dir / name)
        except OSError as error:
            raise UserError(
                f"{run_dir} cannot be written ({error.strerror}): make room, or give another place with outputs=FOLDER."
            ) from error
    ranks = config.trainer.devices * config.trainer.num_nodes
    goes_on = f", going on from {Path(beginning.checkpoint).name}" if beginning.resumed and beginning.checkpoint else ""
    print(f"{config.recipe_name}: {ranks} {config.trainer.accelerator} rank(s), {run_dir}{goes_on}", file=sys.stderr, flush=True)


def _run_here(config: DictConfig, speaks: bool) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads(config.trainer.devices)))
    from lightning_fastnet.cli.rank import run_rank
    from lightning_fastnet.launch.signals import watch_signals

    if not run_rank(config, watch_signals(announce=speaks)):
        raise KeyboardInterrupt


def _metrics(run_dir: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((run_dir / METRICS).read_text()))
    except (OSError, ValueError):
        return {}
