"""Every number that the configs hold, and what makes sense for it."""

import math
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from lightning_fastnet.errors import UserError


@dataclass(frozen=True)
class Number:
    """What a setting may be; ``least`` and ``most`` are inside the range, ``above`` and ``below`` outside."""

    whole: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    null: bool = False

    def words(self) -> str:
        """``a whole number of at least 1``."""
        kind = "a whole number" if self.whole else "a number"
        low = f" of at least {self.least}" if self.least is not None else f" above {self.above}" if self.above is not None else ""
        return f"{kind}{low}" + (f" and below {self.below}" if self.below is not None else "")

    def is_kind(self, value: Any) -> bool:
        """Whether the type is right, whatever the range. NaN and infinity are no settings."""
        kinds = int if self.whole else (int, float)
        return not isinstance(value, bool) and isinstance(value, kinds) and math.isfinite(value)

    def is_low(self, value: float) -> bool:
        """Whether the value is under the range."""
        return (self.least is not None and value < self.least) or (self.above is not None and value <= self.above)

    def is_high(self, value: float) -> bool:
        """Whether the value is over the range."""
        return (self.most is not None and value > self.most) or (self.below is not None and value >= self.below)


def _whole(least: int, most: int | None = None, *, null: bool = False) -> Number:
    return Number(whole=True, least=least, most=most, null=null)


_SEED = _whole(0, 2**32 - 1)  # numpy's
NUMBERS = {
    "seed": _SEED,
    "global_batch_size": _whole(1, null=True),
    "target": Number(least=0, most=1, null=True),
    "trainer.num_nodes": _whole(1),
    "trainer.max_epochs": _whole(1, null=True),
    "trainer.accumulate_grad_batches": _whole(1),
    "trainer.gradient_clip_val": Number(least=0, null=True),
    "trainer.check_val_every_n_epoch": _whole(1),
    "trainer.log_every_n_steps": _whole(1),
    "trainer.num_sanity_val_steps": _whole(-1),  # -1: all
    "strategy.bucket_cap_mb": Number(above=0, null=True),
    "strategy.timeout.minutes": Number(above=0),
    "optimizer.lr": Number(least=0),
    "optimizer.momentum": Number(least=0, below=1),
    "optimizer.weight_decay": Number(least=0),
    "optimizer.trust_coefficient": Number(least=0),
    "optimizer.warmup_epochs": Number(least=0),
    "optimizer.warmup_start": Number(least=0, null=True),
    "optimizer.end_lr": Number(least=0),
    "optimizer.power": Number(least=0),
    "optimizer.gamma": Number(least=0),
    "model.num_classes": _whole(1, null=True),
    "model.network.num_classes": _whole(1, null=True),
    "model.label_smoothing": Number(least=0, most=1),
    "data.seed": _SEED,
    "data.image_size": _whole(1),
    "data.channels": _whole(1, 3),
    "data.batch_size_per_device": _whole(1, null=True),
    "data.num_threads": _whole(1, null=True),
}
"""A key of the config and what it may be; a config that lacks the key is not asked."""

_A_CHANNEL = ("data.mean", "data.std")
LISTS = {"data.mean": Number(), "data.std": Number(above=0), "optimizer.milestones": Number(least=0)}
"""Lists of numbers, and what each element may be."""

LIMITS = ("trainer.limit_train_batches", "trainer.limit_val_batches", "trainer.limit_test_batches", "trainer.limit_predict_batches")
"""Lightning's two words in one: a whole number of batches, or a share of them."""

_ABSENT = object()


def check_numbers(config: DictConfig) -> None:
    """Refuses numbers that are none, or out of range.

    Raises:
        UserError: names the first one and what it may be.
    """
    for key, number in NUMBERS.items():
        value = OmegaConf.select(config, key, default=_ABSENT)
        if value is not _ABSENT and not (value is None and number.null):
            _check(key, value, value, number)
    for key, number in LISTS.items():
        values = OmegaConf.select(config, key, default=_ABSENT)
        if values is _ABSENT:
            continue
        if not isinstance(values, ListConfig):
            one_each, example = ("one a channel", "[0.5]") if key in _A_CHANNEL else ("of epochs", "[30,60]")
            raise UserError(f"{key}={shown(values)} must be a list of numbers, {one_each}: {key}={example}.")
        for value in values:
            _check(key, values, value, number)
    _check_channels(config)
    for key in LIMITS:
        _check_limit(key, OmegaConf.select(config, key))


def _check_channels(config: DictConfig) -> None:
    channels = OmegaConf.select(config, "data.channels")
    if channels not in (None, 1, 3):
        raise UserError(f"data.channels={channels} must be 1 (grey) or 3 (RGB).")
    for key in _A_CHANNEL:
        values = OmegaConf.select(config, key)
        if channels is not None and values is not None and len(values) != channels:
            raise UserError(f"{key}={shown(values)} has {len(values)} number(s), but data.channels={channels}: give one a channel.")


def _check(key: str, shown_value: Any, value: Any, number: Number) -> None:
    what = "be a list in which each is" if isinstance(shown_value, ListConfig) else "be"
    if not number.is_kind(value) or number.is_low(value):
        raise UserError(f"{key}={shown(shown_value)} must {what} {number.words()}.")
    if number.is_high(value):
        most = f"at most {number.most}" if number.most is not None else number.words()
        raise UserError(f"{key}={shown(shown_value)} must {what} {most}.")


def _check_limit(key: str, value: Any) -> None:
    if value is None:
        return
    forms = "give batches (1, 2, ...) or a share of them (0.5; 1.0 is all)"
    if not Number().is_kind(value):
        raise UserError(f"{key}={shown(value)} must be a number: {forms}.")
    if value == 0:
        raise UserError(f"{key}={value} leaves no {_SPLIT[key]} batches: {forms}.")
    if value < 0 or (isinstance(value, float) and value > 1):
        raise UserError(f"{key}={value} is neither a whole number of batches nor a share of them: {forms}.")


_SPLIT = dict(zip(LIMITS, ("training", "validation", "test", "prediction"), strict=True))


def shown(value: Any) -> str:
    """A value as the command line has it; text that reads like a number keeps its quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return value
        return repr(value)
    if isinstance(value, ListConfig):
        return f"[{','.join(map(shown, value))}]"
    return str(value)
