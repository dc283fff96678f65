"""A run's folder remembers its command line: ``resume=FOLDER`` and ``ckpt=RUN`` begin from it, and then take what this line changes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.resume import saved_config

_NOT_REMEMBERED = ("task", "resume", "ckpt", "outputs", "run_dir")  # of this call, not of the run
TASKS = ("fit", "validate", "test", "predict")


@dataclass(frozen=True)
class Recalled:
    """A config, the file it chose of each group, and the ``key=value`` and the like that make it."""

    config: DictConfig
    choices: dict[str, Any]
    overrides: list[str]


def recall(config: DictConfig, overrides: list[str]) -> Recalled:
    """The config to run: this line's, or that of the run it names with this line's changes.

    Args:
        config: composed from the line.
        overrides: the line's ``key=value`` and the like.

    Raises:
        UserError: a folder that is not that of a run, or words that do not go together.
    """
    if config.task not in TASKS:
        raise UserError(f"task={config.task} is unknown: choose one of {', '.join(TASKS)}.")
    if config.task == "fit" and config.ckpt is not None:
        raise UserError("ckpt= goes with task=validate, test or predict; to go on with a run use resume=FOLDER.")
    if config.task != "fit" and config.ckpt is None:
        raise UserError(f"task={config.task} needs the run to take the weights from: ckpt=FOLDER of a run, or one of its .ckpt files.")
    if config.task != "fit" and config.resume is not None:
        raise UserError(f"resume= is for training, not for task={config.task}: leave it out.")
    run = named_run(config)
    if run is not None:
        return _recompose(config, saved_config(run), overrides)
    return Recalled(config, dict(HydraConfig.get().runtime.choices), _merged([], overrides))


def named_run(config: DictConfig) -> Path | None:
    """The folder of the run that ``resume`` or ``ckpt`` names; None: none, or a checkpoint that lies outside a run's folder."""
    if config.ckpt is not None:
        file = Path(str(config.ckpt)).absolute()
        if not file.exists():
            raise UserError(f"ckpt={config.ckpt} does not exist: give a run's folder, or one of the files in its checkpoints/.")
        run = file if file.is_dir() else file.parent.parent
        return run if file.is_dir() or (run / "config.yaml").exists() else None
    if config.resume in (None, "auto"):
        return None
    run = Path(str(config.resume)).absolute()
    if not run.is_dir():
        raise UserError(f"resume={config.resume} does not exist: give a run's folder, or resume=auto for the newest of this recipe.")
    return run


def _recompose(config: DictConfig, saved: dict[str, Any], overrides: list[str]) -> Recalled:
    merged = _merged([str(override) for override in saved.get("overrides") or []], overrides)
    whole = compose("train", merged, return_hydra_config=True)
    choices = dict(whole.hydra.runtime.choices)
    recalled = compose("train", merged)
    given = _by_key(overrides)
    for key in _NOT_REMEMBERED:
        recalled[key] = config[key]
    # Hydra fills this in from the line's own choice
    recalled.recipe_name = config.recipe_name if {"recipe", "recipe_name"} & given.keys() else saved["recipe_name"]
    root = (saved.get("data") or {}).get("root")  # absolute: the line may have been typed in another folder
    if root is not None and "data.root" not in given and "data" not in given:
        recalled.data.root = root
    return Recalled(recalled, choices, merged)


def _merged(first: list[str], then: list[str]) -> list[str]:
    before, both = _by_key(first), {**_by_key(first), **_by_key(then)}
    for key, override in before.items():
        if override.startswith("+") and both[key][0] == "~":
            del both[key]  # added then, taken away now
        elif override.startswith("+") and both[key][0] != "+":
            both[key] = f"+{both[key]}"  # the configs do not have this key
    return [override for key, override in both.items() if key not in _NOT_REMEMBERED]


def _by_key(overrides: list[str]) -> dict[str, str]:
    parsed = OverridesParser.create().parse_overrides(overrides)
    return {f"{one.key_or_group}{'@' + one.package if one.package else ''}": str(one.input_line) for one in parsed}
