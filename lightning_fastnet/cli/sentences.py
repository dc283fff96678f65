"""From Hydra's errors, several lines each, to one sentence with the nearest name."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig

from lightning_fastnet.cli.configs import shipped


def sentence(error: Exception) -> str:
    """What was wrong with the command line, and what to do.

    Args:
        error: what Hydra or OmegaConf raised while it composed the config.
    """
    text = str(error)
    if isinstance(error, OverrideParseException):
        return f"{error.override!r} is not of the form key=value."
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and "/" in error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        options = [str(option) for option in error.options or [] if option]
        own = " (or your own: --config-dir FOLDER, with FOLDER/recipe/NAME.yaml)" if group == "recipe" else ""
        return f"There is no {group}={name}{_nearest(name, options)}; choose one of: {', '.join(options)}{own}."
    if "@recipe." in text:
        return "A recipe of your own must have `# @package _global_` as its first line."
    key = re.match(r"Could not (?:override|append|delete)[^']*'([^']*)'", text)
    if key:
        return _unknown_key(key.group(1))
    return " ".join(line.strip() for line in text.splitlines() if line.strip()) or type(error).__name__


def _unknown_key(key: str) -> str:
    name = key.partition("@")[0]
    known = ["recipe", *_keys(_default_config())]
    return f"The config has no key {name!r}{_nearest(name, known)}; fastnet-train --cfg job shows them all."


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _default_config() -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(shipped("conf")), version_base="1.3"):
        return compose("train")


def _keys(node: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(node, DictConfig):
        for name in map(str, node):
            yield f"{prefix}{name}"
            yield from _keys(node._get_node(name), f"{prefix}{name}.")
