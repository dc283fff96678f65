"""Imports run one way: cli -> launch, report, models, data, plugins -> optim, comm -> torch. Hydra is known to cli alone."""

import ast
from pathlib import Path

import pytest

import lightning_fastnet

PACKAGE = Path(lightning_fastnet.__file__).parent
LAYER = {"comm": 0, "optim": 0, "plugins": 1, "data": 1, "models": 1, "launch": 1, "report": 1, "cli": 2}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(file: Path) -> set[str]:
    """Full names of all modules that a file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names.add(node.module or "")
    return names


def folder(file: Path) -> str | None:
    parts = file.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


@pytest.mark.parametrize("file", [file for file in FILES if folder(file)], ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_import_against_the_direction(file: Path) -> None:
    own = folder(file)
    assert own in LAYER, f"{own} is a new folder: give it a layer"
    for name in imported(file):
        if name.startswith("lightning_fastnet."):
            other = name.split(".")[1]
            assert other in {own, "errors"} or LAYER[other] < LAYER[own], f"{own} must not import {name}"


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("hydra", {"cli"}),
        ("omegaconf", {"cli"}),
        ("nvidia", {"data"}),
        ("lightning", {"plugins", "data", "models", "report", "cli", "launch"}),
    ],
)
def test_who_may_know_a_package(package: str, allowed: set[str]) -> None:
    users = {folder(file) for file in FILES if any(name.split(".")[0] == package for name in imported(file))}
    assert users <= allowed | {None}


def test_files_hold_one_idea() -> None:
    assert {str(file): len(file.read_text().splitlines()) for file in FILES if len(file.read_text().splitlines()) > 260} == {}
