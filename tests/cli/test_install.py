"""The wheel and the editable install, each in a venv of its own and used from elsewhere. It borrows this one's packages: no network."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from lightning_fastnet.cli.configs import recipe_names, shipped
from tests.cli.foreign_app import CHOOSES, PRINTS, write_app

ROOT = shipped("conf").parent
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
TINY = [
    *("trainer.accelerator=cpu", "trainer.devices=1", "trainer.limit_train_batches=2", "trainer.limit_val_batches=2"),
    *("trainer.limit_test_batches=2", "trainer.max_epochs=1", "optimizer.warmup_epochs=0.5"),
]


class Installed:
    """A venv with this package in it, and a folder that has nothing to do with either."""

    def __init__(self, folder: Path) -> None:
        self.venv, self.elsewhere = folder / "venv", folder / "elsewhere"
        self.elsewhere.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True)
        (packages,) = self.venv.glob("lib/python*/site-packages")
        # .pth files inside a borrowed folder are not read, so that an editable install of this checkout there does not leak in;
        # the name sorts last: what is installed here goes first
        (packages / "zz_borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.packages = packages

    def pip(self, *arguments: str) -> None:
        # --ignore-installed: pip sees the borrowed packages too, and would be content with the one that is there
        options = ["--quiet", "--disable-pip-version-check", "--ignore-installed", "--no-deps", "--no-index"]
        done = self.run("python", "-m", "pip", "install", *options, *arguments)
        assert done.returncode == 0, done.stderr

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = [str(self.venv / "bin" / program), *arguments]
        return subprocess.run(line, cwd=self.elsewhere, env=ENVIRON, capture_output=True, text=True, timeout=250)


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    """And where its package lies."""
    folder = tmp_path_factory.mktemp(request.param)
    made = Installed(folder)
    if request.param == "editable":
        made.pip("--no-build-isolation", "--editable", str(ROOT))
        return made, ROOT
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    made.pip(str(next(folder.glob("*.whl"))))
    return made, made.packages


def test_it_is_this_install_that_runs(installed: tuple[Installed, Path]) -> None:
    venv, where = installed
    done = venv.run("python", "-c", "import lightning_fastnet as it; print(it.__file__)")
    assert Path(done.stdout.strip()).resolve() == (where / "lightning_fastnet" / "__init__.py").resolve()


def test_an_editable_install_copies_no_configs(installed: tuple[Installed, Path]) -> None:
    """They would stay as they were that day."""
    venv, where = installed
    assert (venv.packages / "lightning_fastnet").exists() == (where == venv.packages)


def test_help_names_the_recipes(installed: tuple[Installed, Path]) -> None:
    done = installed[0].run("fastnet-train", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(recipe in done.stdout for recipe in recipe_names())


def test_the_config_composes(installed: tuple[Installed, Path]) -> None:
    done = installed[0].run("fastnet-train", "--cfg", "job")
    assert done.returncode == 0, done.stderr
    assert "_target_: lightning_fastnet.FusedAllReduceStrategy" in done.stdout


def test_a_wrong_line_is_one_sentence(installed: tuple[Installed, Path]) -> None:
    done = installed[0].run("fastnet-train", "recipe=nope")
    assert done.returncode == 2
    assert done.stderr.startswith("fastnet-train: There is no recipe=nope")
    assert len(done.stderr.splitlines()) == 1


def test_another_app_finds_our_configs(installed: tuple[Installed, Path], tmp_path: Path) -> None:
    done = installed[0].run("python", str(write_app(tmp_path)), *CHOOSES)
    assert (done.returncode, done.stdout.strip()) == (0, PRINTS), done.stderr


def test_a_run(installed: tuple[Installed, Path], digits: Path) -> None:
    pytest.importorskip("nvidia.dali")
    venv, _ = installed
    done = venv.run("fastnet-train", "recipe=quickstart", f"data.root={digits}", *TINY)
    assert done.returncode == 0, done.stderr
    (metrics,) = venv.elsewhere.glob("outputs/quickstart/*/metrics.json")
    assert json.loads(metrics.read_text())["trainer/global_step"] == 2
