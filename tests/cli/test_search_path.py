"""Our configs in somebody else's Hydra app; and in our own command nothing twice."""

import os
import subprocess
import sys
from pathlib import Path

import lightning_fastnet
from lightning_fastnet.cli.configs import shipped
from tests.cli.foreign_app import CHOOSES, PRINTS, write_app

ENVIRON = {**os.environ, "PYTHONPATH": str(Path(lightning_fastnet.__file__).parent.parent)}


def run(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=ENVIRON, capture_output=True, text=True, timeout=100)


def test_another_app_composes_our_groups_and_its_own_goes_first(tmp_path: Path) -> None:
    done = run(tmp_path, str(write_app(tmp_path)), *CHOOSES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == PRINTS


def test_it_stands_behind_the_apps_own_folder(tmp_path: Path) -> None:
    done = run(tmp_path, str(write_app(tmp_path)), "--info", "searchpath")
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|") and "Provider" not in line]
    assert rows == ["hydra", "main", "lightning_fastnet", "schema"]


def test_our_own_command_has_its_folder_once(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "lightning_fastnet.cli.train", "--info", "searchpath")
    assert done.stdout.count(f"file://{shipped('conf')}") == 1


def test_a_wrong_name_lists_each_choice_once(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "lightning_fastnet.cli.train", "strategy=dpp")
    assert done.returncode == 2
    assert done.stderr.count("fused_all_reduce") == 1


def test_loading_it_is_cheap() -> None:
    program = "import hydra_plugins.lightning_fastnet_search_path, sys; print({'torch', 'lightning', 'nvidia'} & sys.modules.keys())"
    assert run(Path.cwd(), "-c", program).stdout.strip() == "set()"


def test_hydras_plugin_folder_stays_shared() -> None:
    """An ``__init__.py`` of ours would hide every other package's plugins."""
    assert not (shipped("conf").parent / "hydra_plugins" / "__init__.py").exists()
