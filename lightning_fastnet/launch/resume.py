"""Which run to go on with, and from which of its checkpoints."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoints import is_whole, newest_first
from lightning_fastnet.launch.run_folder import SWEEPS

# where and on how many ranks a run computes, not what
_PLACE = ("run_dir", "outputs", "resume", "checkpoint", "overrides", "num_threads", "batch_size_per_device")
_TRAINER_PLACE = ("accelerator", "devices", "num_nodes")


def identity(config: dict[str, Any]) -> dict[str, Any]:
    """What a run computes, without where: two resolved configs are of the same run if their identities are equal."""
    run_dir = config.get("run_dir") or ""

    def strip(node: Any, name: str = "") -> Any:
        if isinstance(node, dict):
            left_out = _PLACE + (_TRAINER_PLACE if name == "trainer" else ())
            return {key: strip(value, key) for key, value in node.items() if key not in left_out}
        if isinstance(node, list):
            return [strip(value) for value in node]
        # the folder's own path stands in the callbacks and the logger
        return node.replace(run_dir, "") if run_dir and isinstance(node, str) else node

    return dict(strip(config))


def saved_config(run_dir: Path) -> dict[str, Any]:
    """The resolved config of a run's folder.

    Raises:
        UserError: the folder is not that of a run.
    """
    try:
        config = yaml.safe_load((run_dir / "config.yaml").read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{run_dir} is not a run's folder: it has no config.yaml that can be read.") from error
    if not isinstance(config, dict):
        raise UserError(f"{run_dir} is not a run's folder: its config.yaml is not that of a run.")
    return config


def find_run(outputs: Path, config: dict[str, Any]) -> Path | None:
    """The newest run in ``outputs`` that has a checkpoint and is the one that ``config`` (resolved) describes; None: there is none."""
    wanted = identity(config)
    runs = [(files[0].stat().st_mtime_ns, run) for run in _runs(outputs, str(config["recipe_name"])) if (files := newest_first(run))]
    for _, run in sorted(runs, reverse=True):
        try:
            if identity(saved_config(run)) == wanted:
                return run
        except UserError:
            continue
    return None


def _runs(outputs: Path, recipe: str) -> Iterator[Path]:
    for pattern in (f"{recipe}/*/config.yaml", f"{SWEEPS}/*/*/config.yaml"):
        yield from (file.parent for file in outputs.glob(pattern))


def readable_checkpoint(run_dir: Path) -> Path | None:
    """The newest checkpoint of a run that is whole; says on standard error which ones were passed over. None: it has none."""
    for file in newest_first(run_dir):
        if is_whole(file):
            return file
        print(f"warning: the checkpoint {file} is damaged and passed over", file=sys.stderr, flush=True)
    return None


def finished(run_dir: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The metrics of a run that ended as ``config`` (resolved) wants it; None: there is something left to do."""
    try:
        metrics = json.loads((run_dir / "metrics.json").read_text())
    except (OSError, ValueError):
        return None
    done = metrics.get("run/status") == "finished" and identity(saved_config(run_dir)) == identity(config)
    return metrics if done else None
