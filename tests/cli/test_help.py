"""The help screen: fits a window, names what is there, and comes without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

import lightning_fastnet
from lightning_fastnet.cli.configs import group_choices, recipe_names
from lightning_fastnet.cli.help import HEIGHT, WIDTH, answer, help_screen

HEAVY = ("torch", "lightning", "nvidia.dali", "torchvision", "matplotlib")
PROGRAM = f"""
import runpy, sys
sys.argv = ["fastnet-train", *sys.argv[1:]]
try:
    runpy.run_module("lightning_fastnet.cli.train", run_name="__main__")
finally:
    print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)
"""


def process(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_command_prints_one_screen_and_imports_nothing_heavy(tmp_path: Path, flag: str) -> None:
    done = process(tmp_path, flag)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= HEIGHT == 40
    assert max(map(len, lines)) <= WIDTH == 80
    for recipe in recipe_names():
        assert any(line.split()[:1] == [recipe] or recipe in line.split("also:")[-1] for line in lines), recipe
    for group, names in group_choices().items():
        assert f"  {group} " in done.stdout
        assert names[0] in done.stdout
    assert not (tmp_path / "outputs").exists()


def test_version_is_this_packages(tmp_path: Path) -> None:
    done = process(tmp_path, "--version")
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, f"lightning-fastnet {lightning_fastnet.__version__}", "")


def test_hydras_own_help_stays(tmp_path: Path) -> None:
    done = process(tmp_path, "--hydra-help")
    assert done.returncode == 0
    assert "--info" in done.stdout


def test_a_run_is_no_question() -> None:
    assert answer(["recipe=quickstart", "seed=1"]) is None


@pytest.mark.parametrize("form", [["--config-dir", "{}"], ["--config-dir={}"], ["-cd", "{}"]], ids=" ".join)
def test_own_recipes_are_listed_with_what_they_show(tmp_path: Path, form: list[str]) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "mine.yaml").write_text("# @package _global_\n# What it shows: a thing of mine\n")
    (tmp_path / "recipe" / "bare.yaml").write_text("# @package _global_\n")
    screen = answer([*(part.format(tmp_path) for part in form), "--help"])
    assert screen is not None
    rows = [line.split(maxsplit=1) for line in screen.splitlines()]
    assert ["mine", "a thing of mine"] in rows
    assert ["bare"] in rows


def test_a_folder_that_is_not_there_adds_nothing(tmp_path: Path) -> None:
    assert help_screen(tmp_path / "nowhere") == help_screen() == answer(["-h", "--config-dir"])


def test_many_recipes_still_fit_and_each_is_named(tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    names = [f"recipe_number_{number}" for number in range(24)]
    for name in names:
        (tmp_path / "recipe" / f"{name}.yaml").write_text(f"#\n# What it shows: {'many words ' * 20}\n")
    lines = help_screen(tmp_path).splitlines()
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH
    words = set(" ".join(lines).replace(",", " ").split())
    assert set(names) <= words
