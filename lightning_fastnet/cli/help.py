"""One screen that says what ``fastnet-train`` takes, from the recipes and configs that are there, before Hydra or torch are asked."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from lightning_fastnet import __version__
from lightning_fastnet.cli.configs import PROGRAM, group_choices, recipe_names, shipped

WIDTH, HEIGHT = 80, 40  # a terminal's window
_SHOWS = "# What it shows:"
_OPTIONS = {
    "KEY=VALUE": "change a setting: trainer.max_epochs=20 (--cfg job: all)",
    "GROUP=NAME": "exchange a part: strategy=ddp",
    "~callbacks.NAME": "leave one out: progress, step_profile, checkpoint_best",
    "-m KEY=A,B,C": "one run after the other: -m seed=1,2,3",
    "resume=RUN": "go on with a run, by its folder",
    "resume=auto": "with the newest of this line; a new one if there is none",
    "task=TASK ckpt=RUN": "validate, test or predict with a run's last weights",
    "data.root=FOLDER": "your own pictures: train/CLASS/* and val/CLASS/* in it",
    "trainer.devices=N": "processes (ranks); auto: every GPU, or 2 on a CPU",
    "--cfg job": "show the config, run nothing",
    "--config-dir FOLDER": "recipes of your own: FOLDER/recipe/NAME.yaml",
    "Ctrl-C": "once: finish the step, save, stop; twice: stop at once",
    "--version": "this package's; --hydra-help: what Hydra itself takes",
}
_EXAMPLES = (
    "fastnet-train recipe=image_folder data.root=FOLDER model=resnet18",
    "fastnet-train task=predict ckpt=outputs/image_folder/RUN data.root=PICTURES",
)


def answer(arguments: Sequence[str]) -> str | None:
    """What to print where only ``--help``, ``-h`` or ``--version`` was asked for; None: a run was.

    Args:
        arguments: the command line without the program. ``--config-dir FOLDER`` in it adds that folder's recipes.
    """
    if "--help" in arguments or "-h" in arguments:
        return help_screen(_config_dir(arguments))
    return f"lightning-fastnet {__version__}" if "--version" in arguments else None


def help_screen(config_dir: Path | None = None) -> str:
    """At most :data:`HEIGHT` lines of :data:`WIDTH` columns.

    Args:
        config_dir: somebody's own configs; the recipes in its folder ``recipe`` are listed too.
    """
    recipes = {name: shipped("recipes") / f"{name}.yaml" for name in recipe_names()}
    if config_dir is not None:
        recipes |= {file.stem: file for file in sorted((config_dir / "recipe").glob("*.yaml"))}
    head = [
        f"usage: {PROGRAM} [recipe=NAME] [GROUP=NAME ...] [KEY=VALUE ...]",
        "Trains, tests, and leaves a folder in outputs/. Without a recipe: quickstart.",
        "",
        "Recipes:",
    ]
    options = ["", "Options:", *(_row(name, text, 20) for name, text in _OPTIONS.items())]
    options += ["", "Examples:", *(f"  {line}" for line in _EXAMPLES)]
    groups = ["", "Groups and their choices:", *(_row(name, ", ".join(names), 12) for name, names in group_choices().items())]
    room = HEIGHT - len(head) - len(options) - len(groups)
    return "\n".join([*head, *_recipe_rows(recipes, room), *options, *groups])


def _recipe_rows(recipes: dict[str, Path], room: int) -> list[str]:
    """A row a recipe while there is room; the others by name alone, since each must be found here."""
    names, width = list(recipes), max(map(len, recipes)) + 2
    for described in range(len(names), -1, -1):
        rows = [_row(name, _what_it_shows(recipes[name]), width) for name in names[:described]]
        rest = ", ".join(names[described:])
        rows += textwrap.wrap(f"also: {rest}", WIDTH, initial_indent="  ", subsequent_indent="  ") if rest else []
        if len(rows) <= room:
            break
    return rows


def _what_it_shows(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[:3]
    return next((line.removeprefix(_SHOWS).strip() for line in lines if line.startswith(_SHOWS)), "")


def _row(name: str, text: str, width: int) -> str:
    return textwrap.shorten(f"  {name.ljust(width)}".replace(" ", "\0") + text, WIDTH, placeholder=" ...").replace("\0", " ").rstrip()


def _config_dir(arguments: Sequence[str]) -> Path | None:
    for position, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in ("--config-dir", "-cd"):
            following = arguments[position + 1 : position + 2]
            return Path(value) if equals else Path(following[0]) if following else None
    return None
