"""Where the configs and recipes are, and what Hydra needs to know of them."""

from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

import lightning_fastnet
from lightning_fastnet.launch.run_folder import stamp

PROGRAM = "fastnet-train"


def shipped(name: str) -> Path:
    """The folder ``conf`` or ``recipes``: inside the installed package, or beside it in a checkout (also an editable install)."""
    package = Path(lightning_fastnet.__file__).parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def recipe_names() -> list[str]:
    """The shipped recipes' names."""
    return sorted(file.stem for file in shipped("recipes").glob("*.yaml"))


def group_choices() -> dict[str, list[str]]:
    """The groups in ``conf/`` and the names that each can be set to."""
    folders = sorted(folder for folder in shipped("conf").iterdir() if folder.is_dir())
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


def register() -> None:
    """Makes the recipes Hydra's group ``recipe``, and :func:`register_resolvers`: what our own commands need."""
    store = ConfigStore.instance()
    for name in recipe_names():
        node = OmegaConf.load(shipped("recipes") / f"{name}.yaml")
        store.store(group="recipe", name=name, node=node, package="_global_", provider="lightning_fastnet")
    register_resolvers()


def register_resolvers() -> None:
    """Defines the ``fastnet.*`` interpolations that ``conf/`` uses."""
    OmegaConf.register_new_resolver("fastnet.device_type", lambda accelerator: "cuda" if accelerator == "gpu" else "cpu", replace=True)
    OmegaConf.register_new_resolver("fastnet.stamp", stamp, use_cache=True, replace=True)
