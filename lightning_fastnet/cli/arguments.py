"""Arguments that Hydra's own parsers answer with a usage screen or a traceback, refused first."""

from collections.abc import Sequence
from typing import NoReturn

from hydra._internal.utils import get_args_parser  # Hydra has no public way to its own parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from lightning_fastnet.cli.configs import PROGRAM, group_choices, recipe_names
from lightning_fastnet.errors import UserError

NEEDED = ("trainer", "strategy", "precision", "optimizer", "data", "model", "recipe")
"""Groups that no run goes without."""


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuses options that do not exist, keys without a name, and a group that is set to something that is no file's name.

    Args:
        arguments: the command line without the program.

    Raises:
        UserError: the first of these.
    """
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]  # argparse would print its usage
    choices = group_choices() | {"recipe": recipe_names()}
    parsed = parser.parse_args(list(arguments))
    modes = [flag for flag, given in (("-m", parsed.multirun), ("--cfg", parsed.cfg), ("--info", parsed.info)) if given]
    if len(modes) > 1:
        raise UserError(f"{' and '.join(modes)} do not go together: leave one out.")
    for argument in parsed.overrides:
        try:
            (override,) = OverridesParser.create().parse_overrides([argument])
        except OverrideParseException:
            continue  # Hydra reports it, and sentence() says it in our words
        if not override.key_or_group:
            raise UserError(f"{argument!r} has no key before its `=`: write KEY=VALUE, without spaces.")
        group = override.key_or_group
        if group not in choices or override.is_delete() or override.is_sweep_override():
            continue
        value = override.value()
        names = value if isinstance(value, list) else [value]
        if not all(isinstance(name, str) and name for name in names) or (isinstance(value, list) and group in NEEDED):
            leave = "" if group in NEEDED else f", or leave it out with ~{group}"
            raise UserError(f"{argument!r} names no file of the group {group}: choose one of {', '.join(choices[group])}{leave}.")


def _refuse(message: str) -> NoReturn:
    hint = "settings are written KEY=VALUE, without --; " if message.startswith("unrecognized") else ""
    raise UserError(f"{message[:1].upper()}{message[1:]}; {hint}{PROGRAM} --help shows what there is.")
