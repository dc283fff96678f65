"""Which run to go on with, and from which of its checkpoints."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoints import LAST, newest_first, read_checkpoint
from lightning_fastnet.launch.run_folder import SWEEPS

CONFIG, METRICS, STATUS = "config.yaml", "metrics.json", "run/status"
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
        config = yaml.safe_load((run_dir / CONFIG).read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{run_dir} is not a run's folder: it has no config.yaml that can be read.") from error
    if not isinstance(config, dict) or "recipe_name" not in config:
        raise UserError(f"{run_dir} is not a run's folder: its config.yaml is not that of a run.")
    return config


def find_run(outputs: Path, config: dict[str, Any]) -> Path | None:
    """The newest run in ``outputs`` that has a checkpoint and is the one that ``config`` (resolved) describes; None: there is none."""
    wanted = identity(config)
    return next((run for run, saved in _newest_runs(outputs, config) if identity(saved) == wanted), None)


def other_run(outputs: Path, config: dict[str, Any]) -> str | None:
    """The newest run of this recipe with other settings, and the first of them, in words; None: there is none."""
    for run, saved in _newest_runs(outputs, config):
        different = difference(identity(saved), identity(config))
        if different:
            key, there, here = different
            return f"resume={run} ({key}={there} there, {here} here)"
    return None


def difference(one: Any, other: Any, prefix: str = "") -> tuple[str, Any, Any] | None:
    """The first key whose values differ, and both; None: they are equal. What is not there is ``None``."""
    if one == other:
        return None
    if not isinstance(one, dict) or not isinstance(other, dict):
        return prefix.rstrip("."), one, other
    found = (difference(one.get(key), other.get(key), f"{prefix}{key}.") for key in {**one, **other})
    return next((pair for pair in found if pair), None)


def _newest_runs(outputs: Path, config: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Runs of a recipe that have a checkpoint and a config that can be read, the newest first."""
    runs = [(files[0].stat().st_mtime_ns, run) for run in _runs(outputs, str(config["recipe_name"])) if (files := newest_first(run))]
    for _, run in sorted(runs, reverse=True):
        with suppress(UserError):
            yield run, saved_config(run)


def _runs(outputs: Path, recipe: str) -> Iterator[Path]:
    for pattern in (f"{recipe}/*/config.yaml", f"{SWEEPS}/*/*/config.yaml"):
        yield from (file.parent for file in outputs.glob(pattern))


def readable_checkpoint(run_dir: Path) -> Path | None:
    """``last.ckpt``, or the one that got furthest of those that are whole; None: there is none.

    Says on standard error which ones were passed over. (Dates are not asked: a copied folder's say nothing.)
    """
    steps = {}
    for file in sorted(newest_first(run_dir), key=lambda file: file.name != LAST):
        try:
            steps[file] = int(read_checkpoint(file, mmap=True).get("global_step", -1))
        except UserError:
            print(f"warning: the checkpoint {file} is damaged and passed over", file=sys.stderr, flush=True)
            continue
        if file.name == LAST:  # none got further: the others need not be read
            return file
    return max(steps, key=lambda file: steps[file], default=None)


def finished(run_dir: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """The metrics of a run that ended as ``config`` (resolved) wants it; None: there is something left to do."""
    metrics = saved_metrics(run_dir)
    done = metrics.get(STATUS) == "finished" and identity(saved_config(run_dir)) == identity(config)
    return metrics if done else None


def saved_metrics(run_dir: Path) -> dict[str, Any]:
    """What a run's ``metrics.json`` holds; nothing where it is not there or damaged."""
    try:
        metrics = json.loads((run_dir / METRICS).read_text())
    except (OSError, ValueError):
        return {}
    return metrics if isinstance(metrics, dict) else {}
