"""What an import brings in, and that torch and lightning alone are enough for the core plugins."""

import ast
import json
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import lightning_fastnet

CORE = ["FusedAllReduceStrategy", "StepProfile", "RandomState", "LARS", "AllReduceState", "all_reduce_hook", "UserError"]
PACKAGE = Path(lightning_fastnet.__file__).parent
ROOT = PACKAGE.parent


def loaded_by(code: str) -> set[str]:
    """Top-level packages in memory after ``code`` ran in a new interpreter."""
    program = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_every_public_name_is_there() -> None:
    for name in lightning_fastnet.__all__:
        assert getattr(lightning_fastnet, name).__name__ == name
        assert name in dir(lightning_fastnet)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LARSS'"):
        lightning_fastnet.LARSS  # noqa: B018


def test_the_package_itself_imports_nothing() -> None:
    assert not loaded_by("import lightning_fastnet") & {"torch", "lightning", "hydra", "nvidia"}


def test_the_hook_and_lars_do_not_need_lightning() -> None:
    assert not loaded_by("from lightning_fastnet import LARS, all_reduce_hook, AllReduceState") & {"lightning", "hydra", "nvidia"}


def test_the_plugins_do_not_load_hydra_or_dali() -> None:
    loaded = loaded_by(f"from lightning_fastnet import {', '.join(CORE)}")
    assert not loaded & {"hydra", "omegaconf", "nvidia.dali", "mlxtend"}


def test_the_core_knows_torch_and_lightning_only() -> None:
    """Every import in the files of the core, also inside functions."""
    folders = ("comm", "optim", "plugins")
    core = [PACKAGE / "__init__.py", PACKAGE / "errors.py", *(file for name in folders for file in (PACKAGE / name).glob("*.py"))]
    allowed = {*sys.stdlib_module_names, "torch", "lightning", "lightning_fastnet", "typing_extensions"}
    allowed.add("numpy")  # which Lightning brings
    for file in core:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert {name.split(".")[0] for name in names} <= allowed, file


def test_lightning_is_bounded() -> None:
    """2.6.2 and 2.6.3 were malicious uploads; each minor version moves hooks."""
    core = {line.split(";")[0].strip() for line in requires("lightning-fastnet") or [] if "extra ==" not in line}
    assert core == {"lightning<2.7,>=2.6.6", "torch>=2.11"}


@pytest.mark.fresh_venv
@pytest.mark.timeout(600)
def test_core_plugins_in_a_venv_with_torch_and_lightning_only(tmp_path: Path) -> None:
    """A fit on two ranks with everything that the core brings."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "torch==2.13.0", "-e", str(ROOT)], check=True)
    listed = subprocess.run([python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True)
    packages = {package["name"] for package in json.loads(listed.stdout)}
    assert not packages & {"hydra-core", "nvidia-dali-cuda120", "torchvision", "rich", "matplotlib", "mlxtend"}
    subprocess.run([python, "-c", f"from lightning_fastnet import {', '.join(CORE)}"], check=True)
    run = subprocess.run([python, str(ROOT / "examples" / "plain_module.py")], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Where a step's time went" in run.stdout
