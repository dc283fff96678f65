"""From Hydra's errors, several lines each, to one sentence with the nearest name."""

import difflib
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.utils import get_object
from omegaconf import DictConfig

from lightning_fastnet.cli.configs import PROGRAM, shipped
from lightning_fastnet.errors import UserError


def sentence(error: Exception) -> str:
    """What was wrong with the command line, and what to do.

    Args:
        error: what Hydra or OmegaConf raised while it composed the config.
    """
    text = str(error)
    if isinstance(error, OverrideParseException):
        return f"{error.override!r} is not of the form key=value; lists have no spaces, {PROGRAM} --help shows what there is."
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and "/" in error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        options = [str(option) for option in error.options or [] if option]
        own = " (or your own: --config-dir FOLDER, with FOLDER/recipe/NAME.yaml)" if group == "recipe" else ""
        return f"There is no {group}={name}{_nearest(name, options)}; choose one of: {', '.join(options)}{own}."
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return f"There is no config {error.missing_cfg_file}: leave --config-name out, or add its folder with --config-dir FOLDER."
    for pattern, answer in _ANSWERS.items():
        if found := re.search(pattern, text):
            return answer.format(*found.groups(), key=getattr(error, "full_key", None))
    if "@recipe." in text:
        return "A recipe of your own must have `# @package _global_` as its first line."
    key = re.match(r"Could not (?:override|append|delete)[^']*'([^']*)'", text)
    if key:
        return _unknown_key(key.group(1))
    return _one_line(error)


_ANSWERS = {  # what Hydra or OmegaConf say: what we say
    r"Ambiguous value for argument '([^=]*)=(.*)'": "{0} got several values, {1}: put -m before it for one run each; a list is [{1}].",
    r"^(\S+) appears more than once in the final defaults list": "{0} is chosen twice: write {0}=NAME once, without a +.",
    r"Additional config directory '(.*)' not found": "--config-dir {0} is no folder: give one that holds recipe/NAME.yaml.",
    r"An item is already at '(.*)'": "The config has {0} already: write {0}=VALUE without the +.",
    r"No match for '([^=]*)=(.*)'": "~{0}={1} takes nothing away, since {0} is set to something else: write ~{0}.",
    r"Recursive interpolation detected": "{key} points at itself: give {key}=VALUE.",
    r"Interpolation key '(.*)' not found": "{key} points at ${{{0}}}, which is not there: fastnet-train --cfg job shows all keys.",
    r"Environment variable '(.*)' not found": "{key} asks for the environment variable {0}, not set: export it or give {key}=VALUE.",
}


def instantiation_sentence(error: HydraException) -> str:
    """Which key could not be made into an object, what the called class said, and the nearest name where an argument is unknown.

    Args:
        error: the ``InstantiationException`` that ``hydra.utils.instantiate`` raised.
    """
    text, reason = str(error), error.__cause__
    at: BaseException | None = error
    while at is not None:  # a sentence of ours under Hydra's wrapping
        if isinstance(at, UserError):
            return str(at)
        at = at.__cause__
    key = _part(r"full_key: (\S+)", text) or "The config"
    missing = _part(r"Error locating target '(.*?)'", text)
    if missing is not None:
        why = _one_line(reason.__context__ or reason) if reason else ""
        return f"{key}._target_={missing} cannot be imported ({why}): check its spelling, and that its package is installed."
    target = _part(r"(?:call to target '|creating partial\()([\w.]+)", text) or "its class"
    unknown = _part(r"unexpected keyword argument '(\w+)'", str(reason))
    if unknown:
        near = difflib.get_close_matches(unknown, _arguments(target), n=1, cutoff=0.5)
        mean = f" (did you mean {key}.{near[0]}?)" if near else ""
        return f"{key}.{unknown} is no argument of {target.rpartition('.')[2]}{mean}: correct it or leave it out."
    if reason is None:
        return _one_line(HydraException(text.replace(f"full_key: {key}", f"({key})")))
    return f"{key} cannot be made, {target.rpartition('.')[2]} said: {_one_line(reason).rstrip('.')}; change its values."


def _part(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None


def _arguments(target: str) -> list[str]:
    try:
        return list(inspect.signature(get_object(target)).parameters)
    except (HydraException, ImportError, TypeError, ValueError):  # not there, or written in C
        return []


def _one_line(error: BaseException) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _unknown_key(key: str) -> str:
    name = key.partition("@")[0]
    known = ["recipe", *_keys(_default_config())]
    last = name.rpartition(".")[2]
    meant = _ELSEWHERE.get(last) or next((one for one in known if one.rpartition(".")[2] == last), None)
    hint = f" (did you mean {meant}?)" if meant else _nearest(name, known)
    return f"The config has no key {name!r}{hint}; {PROGRAM} --cfg job shows them all."


_ELSEWHERE = {  # what other programs call it
    "gpus": "trainer.devices",
    "num_gpus": "trainer.devices",
    "batch_size": "global_batch_size",
    "epochs": "trainer.max_epochs",
    "workers": "data.num_threads",
    "num_workers": "data.num_threads",
    "learning_rate": "optimizer.lr",
}


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
