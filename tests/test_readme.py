"""The README's code blocks run as they stand, and its names exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lightning_fastnet

ROOT = Path(lightning_fastnet.__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = [
    line.partition("#")[0].split()
    for block in re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("fastnet-train ")
]


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_a_python_block_runs(block: str) -> None:
    run = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_commands_settings_compose(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "NAME.yaml").write_text("# @package _global_\ndefaults:\n  - /recipe/quickstart\n")
    arguments = [str(tmp_path) if word == "FOLDER" else word for word in command[1:] if word != "-m"]
    if "-m" in command:  # its first job
        arguments = [word.partition(",")[0] for word in arguments]
    run = subprocess.run(
        [sys.executable, "-m", "lightning_fastnet.cli.train", *arguments, "--cfg", "job"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "_target_: lightning.pytorch.Trainer" in run.stdout


def test_the_two_commands_are_at_the_top() -> None:
    head = TEXT[: TEXT.index("## ")]
    assert "pip install -e '.[demo]' && fastnet-train" in head
    assert "pip install -e '.[test]' && pytest" in head


def test_every_file_it_names_exists() -> None:
    for name in re.findall(r"`((?:lightning_fastnet/|examples/|conf/)?[\w/]+\.py)`", TEXT):
        assert (ROOT / name).exists() or (ROOT / "lightning_fastnet" / name).exists(), name


def test_nothing_is_left_to_do() -> None:
    for file in [ROOT / "README.md", *(ROOT / "recipes").glob("*"), *(ROOT / "conf").rglob("*.yaml")]:
        assert not re.search(r"TODO|FIXME|XXX", file.read_text()), file
