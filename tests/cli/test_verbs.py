"""validate, test and predict: a run's weights on data, in real processes, against plain torch and PIL."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.cli.command import command, runs
from tests.cli.parts import DropoutNet

pytest.importorskip("nvidia.dali")

SHORT = ["trainer.accelerator=cpu", "trainer.devices=2", "trainer.max_epochs=1", "optimizer.warmup_epochs=0.5"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """A finished run's folder."""
    cwd = tmp_path_factory.mktemp("trained")
    done = command(cwd, f"data.root={digits}", *SHORT, "model.network._target_=tests.cli.parts.DropoutNet")
    assert done.returncode == 0, done.stderr
    return runs(cwd)[0]


def metrics(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "metrics.json").read_text()))


def plain_probabilities(run: Path, pictures: list[Path]) -> torch.Tensor:
    """What the weights say of pictures as PIL reads them, without this package."""
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    network = DropoutNet(len(checkpoint["classes"])).eval()
    network.load_state_dict({k.removeprefix("network."): v for k, v in checkpoint["state_dict"].items() if k.startswith("network.")})
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(file))) for file in pictures])[:, None] / 255
    return network((pixels - 0.1307) / 0.3081).softmax(1).detach()


@pytest.mark.parametrize("ranks", [1, 2])
def test_testing_a_run_gives_what_it_reported(trained: Path, tmp_path: Path, ranks: int) -> None:
    done = command(tmp_path, "task=test", f"ckpt={trained}", f"trainer.devices={ranks}")
    assert done.returncode == 0, done.stderr
    found = metrics(runs(tmp_path)[0])
    assert found["trainer/world_size"] == ranks
    assert found["test/top1"] == pytest.approx(metrics(trained)["test/top1"], abs=1e-7)
    assert found["test/loss"] == pytest.approx(metrics(trained)["test/loss"], rel=1e-5)
    assert f"{100 * found['test/top1']:.2f} %" in done.stdout
    assert f"Weights: {trained}/checkpoints/last.ckpt" in done.stdout
    assert not list(runs(tmp_path)[0].glob("checkpoints/*"))


def test_validating_one_of_its_files(trained: Path, tmp_path: Path) -> None:
    done = command(tmp_path, "task=validate", f"ckpt={trained}/checkpoints/best.ckpt", "trainer.devices=1")
    assert done.returncode == 0, done.stderr
    assert metrics(runs(tmp_path)[0])["val/top1"] == pytest.approx(metrics(trained)["val/top1"], abs=1e-7)


def test_predicting_a_folder_that_has_pictures_only(trained: Path, digits: Path, tmp_path: Path) -> None:
    """23 pictures on 2 ranks, in folders whose names are no classes; against plain torch."""
    chosen = sorted((digits / "val").glob("*/*.png"))[::43][:23]
    for number, file in enumerate(chosen):
        place = tmp_path / "mine" / ("a" if number % 3 else "b/c") / f"{number:02d}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    done = command(tmp_path, "task=predict", f"ckpt={trained}", "data.root=mine", "trainer.devices=2")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    pictures = sorted((tmp_path / "mine").rglob("*.png"))
    assert [row["path"] for row in rows] == [str(picture.relative_to(tmp_path / "mine")) for picture in pictures]
    probability, label = plain_probabilities(trained, pictures).max(1)
    assert [row["class"] for row in rows] == [str(int(one)) for one in label]
    assert [float(row["probability"]) for row in rows] == pytest.approx(probability.tolist(), abs=1e-4)


def test_a_subset_of_the_classes_is_tested_with_the_trained_labels(trained: Path, digits: Path, tmp_path: Path) -> None:
    for digit in ("3", "7"):
        shutil.copytree(digits / "val" / digit, tmp_path / "mine" / "val" / digit)
    done = command(tmp_path, "task=validate", f"ckpt={trained}", "data.root=mine", "trainer.devices=1")
    assert done.returncode == 0, done.stderr
    pictures = sorted((tmp_path / "mine").rglob("*.png"))
    right = plain_probabilities(trained, pictures).argmax(1) == torch.tensor([int(picture.parent.name) for picture in pictures])
    assert metrics(runs(tmp_path)[0])["val/top1"] == pytest.approx(float(right.float().mean()), abs=1e-6)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["model=resnet18", "model.network._target_=torchvision.models.resnet18"], "is of another model: it has no network."),
        (["model.num_classes=3"], "is of another model: network.4.weight has shape (10, 32), this model's has (3, 32)"),
    ],
)
def test_another_models_checkpoint_is_refused(trained: Path, tmp_path: Path, words: list[str], sentence: str) -> None:
    done = command(tmp_path, "task=test", f"ckpt={trained}", "trainer.devices=2", *words)
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "outputs").exists()


def test_resuming_with_other_classes_is_refused(trained: Path, digits: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    shutil.copytree(digits, tmp_path / "mine")
    for split in ("train", "val"):
        (tmp_path / "mine" / split / "9").rename(tmp_path / "mine" / split / "nine")
    done = command(tmp_path, "resume=run", "data.root=mine", "trainer.max_epochs=2")
    assert done.returncode == 2
    assert "was trained on the classes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9; the data has 0, 1, 2, 3, 4, 5, 6, 7, 8, nine" in done.stderr
