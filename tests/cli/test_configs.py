"""Every config and recipe composes, and every name in it exists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli.configs import recipe_names, register, shipped

GROUPS = sorted((file.parent.name, file.stem) for file in shipped("conf").rglob("*.yaml") if file.parent != shipped("conf"))


def composed(*overrides: str) -> DictConfig:
    register()
    with initialize_config_dir(str(shipped("conf")), version_base="1.3"):
        return compose("train", [*overrides, "recipe_name=x", "run_dir=/run"])


def targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "_target_" in node:
            yield node["_target_"]
        for value in node.values():
            yield from targets(value)


def resolved(config: DictConfig) -> Any:
    return OmegaConf.to_container(config, resolve=True)


@pytest.mark.parametrize(("group", "name"), GROUPS, ids=lambda value: value)
def test_every_choice_composes_and_its_classes_exist(group: str, name: str) -> None:
    for target in targets(resolved(composed(f"{group}={name}"))):
        assert callable(get_object(target)), target


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_composes(recipe: str) -> None:
    assert resolved(composed(f"recipe={recipe}"))["trainer"]["max_epochs"] > 0


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_begins_with_its_command(recipe: str) -> None:
    first = (shipped("recipes") / f"{recipe}.yaml").read_text().splitlines()[0]
    assert first == f"# fastnet-train recipe={recipe}"


def test_a_recipe_goes_before_the_groups_and_the_command_line_before_both() -> None:
    assert composed("recipe=quickstart").optimizer.trust_coefficient == 0.05
    assert composed("recipe=quickstart", "optimizer.trust_coefficient=0.5").optimizer.trust_coefficient == 0.5


def test_the_wheel_carries_what_a_checkout_has(tmp_path: Path) -> None:
    """Built without an index: hatchling is a test tool."""
    import subprocess
    import sys
    import zipfile

    root = shipped("conf").parent
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=root, check=True, capture_output=True
    )
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    for folder in ("conf", "recipes"):
        for file in shipped(folder).rglob("*.yaml"):
            assert f"lightning_fastnet/{folder}/{file.relative_to(shipped(folder))}" in names
    assert "lightning_fastnet/py.typed" in names
    assert [name for name in names if name.startswith("hydra_plugins/")] == ["hydra_plugins/lightning_fastnet_search_path.py"]
