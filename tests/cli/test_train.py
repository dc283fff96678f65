"""The command itself, as a user types it: real processes, real ranks, the run's folder looked at."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image

from lightning_fastnet.models.networks import LeNet
from lightning_fastnet.plugins.step_profile import verdict

pytest.importorskip("nvidia.dali")

SHORT = ["trainer.max_epochs=2", "optimizer.warmup_epochs=1"]
TINY = [*SHORT, "trainer.limit_train_batches=4", "trainer.limit_val_batches=2", "trainer.limit_test_batches=2"]


def command(cwd: Path, *arguments: str, launcher: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    program = [*launcher, "-m", "lightning_fastnet.cli.train"] if launcher else [sys.executable, "-m", "lightning_fastnet.cli.train"]
    return subprocess.run([*program, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, timeout=200)


def only_run(cwd: Path) -> Path:
    (folder,) = (cwd / "outputs" / "quickstart").iterdir()
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A short quickstart on two ranks: its working directory, and what it printed."""
    cwd = tmp_path_factory.mktemp("run")
    done = command(cwd, f"data.root={digits}", "trainer.accelerator=cpu", "trainer.devices=2", "target=0.5", *SHORT)
    assert done.returncode == 0, done.stderr
    return cwd, done


def test_leaves_one_folder_with_everything_in_it(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder = only_run(finished[0])
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {
        "config.yaml",
        "metrics.json",
        "metrics.csv",
        "learning_curve.png",
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
        "checkpoints/previous.ckpt",
        "logs/rank1.log",
    }
    assert {path.name for path in finished[0].iterdir()} == {"outputs"}


def test_the_metrics_are_true(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder = only_run(finished[0])
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["trainer/global_step"] == 2 * (4000 // 128)
    assert metrics["trainer/world_size"] == 2
    assert metrics["optimizer/skipped_steps"] == 0
    assert 0.5 < metrics["test/top1"] <= 1
    assert round(metrics["test/top1"] * 1000) == pytest.approx(metrics["test/top1"] * 1000, abs=1e-3), "1,000 pictures, each once"
    assert metrics["val/top1"] == metrics["test/top1"], "the same pictures, the same weights"
    assert 0 < metrics["time/to_target_seconds"] < metrics["time/total_seconds"]
    assert metrics["train/images_per_second"] > 0
    with (folder / "metrics.csv").open(newline="") as rows:
        top1 = [float(row["val/top1"]) for row in csv.DictReader(rows) if row["val/top1"]]
    assert len(top1) == 2
    assert top1[-1] == pytest.approx(metrics["val/top1"], abs=1e-6)


def test_the_config_is_resolved(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder = only_run(finished[0])
    config = OmegaConf.load(folder / "config.yaml")
    assert "${" not in (folder / "config.yaml").read_text()
    assert config.trainer.devices == 2
    assert config.data.batch_size_per_device == 64
    assert config.run_dir == str(folder)


def test_the_checkpoints_hold_plain_containers(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    for name in ("best", "last"):
        checkpoint = torch.load(only_run(finished[0]) / "checkpoints" / f"{name}.ckpt", weights_only=True)
        assert checkpoint["state_dict"]["network.0.weight"].dtype == torch.float32


def test_the_last_checkpoint_is_the_tested_one(finished: tuple[Path, subprocess.CompletedProcess[str]], digits: Path) -> None:
    """Its weights in a plain network give the reported accuracy on the pictures as PIL reads them."""
    folder = only_run(finished[0])
    metrics = json.loads((folder / "metrics.json").read_text())
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert checkpoint["global_step"] == metrics["trainer/global_step"]
    network = LeNet()
    network.load_state_dict({name.removeprefix("network."): value for name, value in checkpoint["state_dict"].items() if "network" in name})
    files = sorted((digits / "val").glob("*/*.png"))
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(file))) for file in files])[:, None] / 255
    right = network((pixels - 0.1307) / 0.3081).argmax(1) == torch.tensor([int(file.parent.name) for file in files])
    assert float(right.float().mean()) == pytest.approx(metrics["test/top1"], abs=1e-6)


def test_prints_the_table_and_lines_instead_of_a_bar(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    done = finished[1]
    metrics = json.loads((only_run(finished[0]) / "metrics.json").read_text())
    for words in (f"{100 * metrics['test/top1']:.2f} %", f"{metrics['profile/data_ms']:.2f} ms", "Run folder:"):
        assert words in done.stdout
    assert verdict(metrics) in done.stdout
    first, *epochs = done.stderr.splitlines()
    assert first == f"quickstart: 2 cpu rank(s), {only_run(finished[0])}"
    assert [line.split()[:2] for line in epochs] == [["epoch", "1/2"], ["epoch", "2/2"]], done.stderr


def test_started_by_torchrun_it_is_one_rank_of_many(tmp_path: Path, digits: Path) -> None:
    launcher = (str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
    done = command(tmp_path, f"data.root={digits}", "trainer.accelerator=cpu", *TINY, launcher=(*launcher, "--rdzv-id=job7"))
    assert done.returncode == 0, done.stderr
    folder = only_run(tmp_path)
    assert folder.name.endswith("_job7")
    assert json.loads((folder / "metrics.json").read_text())["trainer/world_size"] == 2


WRONG_AT_ONCE = [
    (["recipe=quickstrat"], "There is no recipe=quickstrat (did you mean quickstart?); choose one of: image_folder, quickstart"),
    (["strategy=dpp"], "There is no strategy=dpp (did you mean ddp?); choose one of: ddp, fused_all_reduce."),
    (["optimizr.lr=1"], "The config has no key 'optimizr.lr' (did you mean optimizer.lr?); fastnet-train --cfg job shows them all."),
    (["recipee=x"], "The config has no key 'recipee' (did you mean recipe?); fastnet-train --cfg job shows them all."),
    (["~callbacks.profile"], "The config has no key 'callbacks.profile' (did you mean callbacks.step_profile?)"),
    (["seed"], "'seed' is not of the form key=value; lists have no spaces, fastnet-train --help shows what there is."),
    (["data.root=/no/such"], "data.root=/no/such does not exist: give a folder with train/ and val/ in it."),
    (["trainer.devices=0"], "trainer.devices=0 must be auto or a number of ranks of at least 1."),
    (["global_batch_size=7", "trainer.accelerator=cpu", "trainer.devices=2"], "global_batch_size=7 cannot be shared equally"),
    (["seed=one"], "seed=one must be a whole number of at least 0."),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG_AT_ONCE, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_a_wrong_line_ends_with_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = command(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fastnet-train: {words}")
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert not (tmp_path / "outputs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs here")
def test_devices_that_are_not_there_are_refused(tmp_path: Path) -> None:
    done = command(tmp_path, "trainer.accelerator=gpu", "trainer.devices=2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("fastnet-train: trainer.accelerator=gpu, but torch sees no GPU on this machine: use trainer.accelerator=cpu.\n")


def test_what_only_the_ranks_can_see_is_one_sentence_too(tmp_path: Path, digits: Path) -> None:
    done = command(tmp_path, f"data.root={digits}", "trainer.accelerator=cpu", "trainer.devices=2", "optimizer.warmup_epochs=99")
    assert done.returncode == 2
    assert done.stderr.startswith("fastnet-train: optimizer.warmup_epochs=99 is longer than the run, trainer.max_epochs=15")
    # in steps only the ranks can see it
    words = [f"data.root={digits}", "trainer.accelerator=cpu", "trainer.devices=2", "+trainer.max_steps=3", "optimizer.warmup_epochs=2"]
    done = command(tmp_path, *words)
    assert done.returncode == 2
    begun, *rest = done.stderr.strip().splitlines()
    assert begun.startswith("quickstart: 2 cpu rank(s)")
    assert len(rest) == 1
    assert rest[0].startswith("fastnet-train: warmup_epochs=2 does not fit a run of ")
    done = command(tmp_path, *words[:3], "optimizer.milestones=[3]")
    assert (done.returncode, done.stderr.strip().splitlines()[1]) == (
        2,
        "fastnet-train: decay='steps' goes with milestones=[EPOCH, ...], and the other decays go without: give both or neither.",
    )


def test_a_diverged_run_says_so_and_leaves_its_folder_whole(tmp_path: Path, digits: Path) -> None:
    done = command(tmp_path, f"data.root={digits}", "trainer.accelerator=cpu", "trainer.devices=2", "optimizer.lr=1e6", *TINY)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("fastnet-train: The run diverged")
    folder = only_run(tmp_path)
    assert json.loads((folder / "metrics.json").read_text())["val/loss"] is None
    assert (folder / "learning_curve.png").exists()


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "pictures" / "train" / "cat").mkdir(parents=True)
    done = command(tmp_path, "data.root=pictures", "trainer.accelerator=cpu", "trainer.devices=1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"fastnet-train: {tmp_path}/pictures/train holds no pictures")
