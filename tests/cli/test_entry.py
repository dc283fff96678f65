"""The installed command, in a folder with modules of the user's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, environment

SCRIPT = Path(sys.executable).with_name("fastnet-train")
NETWORK = """
from torch import nn
class Net(nn.Sequential):
    def __init__(self, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(784, num_classes))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH is younger")
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_module_of_this_folder_is_found_and_none_of_it_stands_before_pythons(tmp_path: Path, digits: Path, ranks: int) -> None:
    pytest.importorskip("nvidia.dali")
    (tmp_path / "mynet.py").write_text(NETWORK)
    (tmp_path / "queue.py").write_text("raise RuntimeError('the one of this folder')")
    words = [f"data.root={digits}", "model.network._target_=mynet.Net", "trainer.accelerator=cpu", f"trainer.devices={ranks}"]
    words += [f"trainer.limit_{phase}_batches=1" for phase in ("train", "val", "test")]
    words += ["trainer.max_epochs=1", "optimizer.warmup_epochs=0"]
    done = subprocess.run([SCRIPT, *words], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_while_it_imports_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "hydra.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    environ = environment(PYTHONPATH=f"{tmp_path}:{ROOT}")
    done = subprocess.run([SCRIPT], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (130, "")
