"""``recipe=image_folder``: any folder of pictures, from its classes to the weights in plain torchvision. Real processes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

from tests.cli.command import ROOT, command, environment, runs

pytest.importorskip("nvidia.dali")
DATA = ROOT.parent / "shared" / "data"
TINY = ["trainer.accelerator=cpu", "trainer.devices=2", "trainer.max_epochs=1", "model=resnet18"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, 12 pictures each to train and 5 to evaluate, of odd sizes."""
    root = tmp_path_factory.mktemp("photos")
    numbers = np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 5)):
        for name in ("cat", "dog", "owl"):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                height, width = numbers.integers(20, 60, 2)
                pixels = numbers.integers(0, 255, (height, width, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{number}.jpg")
    return root


def test_classes_come_from_the_data_and_go_with_the_weights(photos: Path, tmp_path: Path) -> None:
    done = command(tmp_path, "recipe=image_folder", f"data.root={photos}", *TINY, "data.image_size=32", "global_batch_size=8")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path, "image_folder")
    # the three lines of the README, without this package
    (block,) = re.findall(r"```python notest\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"torch": torch, "torchvision": torchvision}
    exec(block.replace("RUN/checkpoints/best.ckpt", f"{run}/checkpoints/last.ckpt").replace("resnet50", "resnet18"), names)
    checkpoint, network = names["checkpoint"], names["network"].eval()
    assert checkpoint["classes"] == ["cat", "dog", "owl"]
    right = 0
    transform = v2.Compose(
        [
            v2.PILToTensor(),
            v2.Resize(37, antialias=True),
            v2.CenterCrop(32),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    for label, name in enumerate(checkpoint["classes"]):
        for file in (photos / "val" / name).iterdir():
            right += int(network(transform(Image.open(file))[None]).argmax() == label)
    assert json.loads((run / "metrics.json").read_text())["test/top1"] == pytest.approx(right / 15, abs=1e-6)


def test_a_folder_of_photos_with_resnet50(tmp_path: Path) -> None:
    if not (DATA / "trashnet" / "train").is_dir():
        pytest.skip("no photos at hand")
    done = command(
        tmp_path,
        "recipe=image_folder",
        f"data.root={DATA / 'trashnet'}",
        "model=resnet50",
        "trainer.max_epochs=1",
        "data.image_size=96",
        "trainer.limit_train_batches=2",
        "global_batch_size=16",
    )
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path, "image_folder")
    classes = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["classes"]
    assert classes == sorted(path.name for path in (DATA / "trashnet" / "train").iterdir())
    assert json.loads((run / "metrics.json").read_text())["trainer/global_step"] == 2


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_unpacked_data_sets(tmp_path: Path, name: str) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"no {name} at hand")
    unpack = [sys.executable, "-m", "benchmarks.unpack_data", name, str(DATA / name), str(tmp_path / name), "--per-class", "8"]
    subprocess.run(unpack, cwd=ROOT, env=environment(), check=True, capture_output=True)
    done = command(tmp_path, "recipe=image_folder", f"data.root={name}", *TINY, "data.image_size=32", "global_batch_size=16")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path, "image_folder")
    assert len(torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["classes"]) == 10
