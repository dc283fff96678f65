"""Values of the wrong kind, found by comparing a config with the same one as its files have it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lightning_fastnet.cli.numbers import LIMITS, LISTS, NUMBERS, shown
from lightning_fastnet.errors import UserError

WORDS = {
    "data.sampling": ("shuffle", "fixed_cycle"),
    "data.augment": ("crop_flip", "jitter", "none"),
    "data.device": ("auto", "gpu", "cpu"),
    "optimizer.decay": ("constant", "linear", "poly2", "poly", "cosine", "steps"),
}
"""Settings that take one of a few words."""

_ELSEWHERE = {*NUMBERS, *LISTS, *LIMITS, "trainer.devices", "trainer.accelerator"}  # settle() knows more of these than their type
_NULL = {"strategy.timeout", "data.prepare", "trainer.enable_model_summary", "logger.name", "logger.version"}  # their class takes None
_READ_BY_US = (
    *("seed", "target", "outputs", "global_batch_size", "run_dir", "recipe_name"),
    *("trainer.accelerator", "trainer.devices", "trainer.num_nodes"),
    *("optimizer.lr", "optimizer.warmup_epochs", "optimizer.decay"),
)


def unchanged_config(choices: Mapping[str, Any], hydras: Sequence[str] = ()) -> DictConfig:
    """The config that only chooses: the same file of each group, no recipe, no value from the command line. For use under ``hydra.main``.

    Args:
        choices: a group and the name of its file, as Hydra reports them.
        hydras: overrides of Hydra's own config; those that say where files lie are kept.
    """
    overrides = ["~recipe", *(override for override in hydras if "hydra.searchpath" in override)]
    for group, chosen in choices.items():
        if chosen is not None and group != "recipe" and not group.startswith("hydra/") and "@" not in group:
            overrides.append(f"{group}={chosen if isinstance(chosen, str) else '[' + ','.join(chosen) + ']'}")
    return compose("train", overrides)


def check_values(config: DictConfig, choices: Mapping[str, Any]) -> None:
    """:func:`check_types` of a config against the files that it chose from. For use under ``hydra.main``."""
    check_types(config, unchanged_config(choices, list(HydraConfig.get().overrides.hydra)))


def check_types(config: DictConfig, default: DictConfig) -> None:
    """Refuses values that are not of the kind that the files' own value is: true or false, number, text, list, keys.

    Args:
        config: as the command line and the recipe made it.
        default: the same choices without either.

    Raises:
        UserError: names the first one and what it must be; or a key that a run needs and the command line deleted.
    """
    _walk(config, default, "")


def _walk(config: DictConfig, default: DictConfig, prefix: str) -> None:
    for name in map(str, default):
        key = f"{prefix}{name}"
        if name not in config:
            _check_absent(config, key, name)
            continue
        if OmegaConf.is_missing(config, name):
            raise UserError(f"{key}=??? must be given: {key}=VALUE.")
        value, expected = config[name], _value(default, name)
        if isinstance(expected, DictConfig) and isinstance(value, DictConfig):
            _walk(value, expected, f"{key}.")
        elif key in WORDS:
            if value not in WORDS[key]:
                raise UserError(f"{key}={shown(value)} is unknown: choose one of {', '.join(WORDS[key])}.")
        elif key not in _ELSEWHERE:
            _check_kind(key, value, expected)


def _check_absent(config: DictConfig, key: str, name: str) -> None:
    if OmegaConf.is_missing(config, name):
        raise UserError(f"{key}=??? must be given: {key}=VALUE.")
    if key in _READ_BY_US or name == "_target_":
        raise UserError(f"A run needs {key}, and it was left out: leave ~{key} away.")


def _value(node: DictConfig, name: str) -> Any:
    """A default that points at what only a run knows is text, as far as anyone can see."""
    try:
        return node[name]
    except OmegaConfBaseException:
        return ""


def _check_kind(key: str, value: Any, expected: Any) -> None:
    must = _what_it_must_be(key, value, expected)
    if must:
        raise UserError(f"{key}={shown(value)} must be {must}.")


def _what_it_must_be(key: str, value: Any, expected: Any) -> str | None:
    """None: it is."""
    single = not isinstance(value, DictConfig | ListConfig)
    if value is None:
        if expected is None or key in _NULL:
            return None
        return f"left out with ~{key} instead" if key.startswith("callbacks.") and key.count(".") == 1 else _kind(expected)
    if expected is None:
        return "a single value or null" if key == "data.root" and not single else None
    if isinstance(expected, ListConfig):
        if single or isinstance(value, DictConfig):
            return _kind(expected)
        kinds = {must for element in value for other in expected if (must := _what_it_must_be("", element, other))}
        return f"a list in which each is {kinds.pop()}" if kinds and len({type(other) for other in expected}) == 1 else None
    if isinstance(expected, DictConfig):
        right = False
    elif isinstance(expected, bool):
        right = isinstance(value, bool)
    elif isinstance(expected, int | float):
        right = isinstance(value, int if isinstance(expected, int) else (int, float)) and not isinstance(value, bool)
    else:
        right = single
    return None if right else _kind(expected)


def _kind(expected: Any) -> str:
    if isinstance(expected, DictConfig):
        return f"a group of keys ({', '.join(map(str, expected)) or 'none so far'})"
    if isinstance(expected, ListConfig):
        return "a list: [A,B]"
    names: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number"}
    return names.get(type(expected), "a single value")
