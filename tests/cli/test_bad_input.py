"""What a user gets wrong, typed for real on two ranks: one sentence in all, exit status 2, no traceback, no empty folder left."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import command, environment, runs

pytest.importorskip("nvidia.dali")

TWO = ["trainer.accelerator=cpu", "trainer.devices=2"]


def refused(cwd: Path, *arguments: str, prefix: tuple[str, ...] = (), folder_left: bool = False) -> str:
    """Runs a wrong line and returns its sentence."""
    done = command(cwd, *arguments, launcher=(*prefix, sys.executable) if prefix else ())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.strip().splitlines() if not line.startswith(("quickstart: ", "epoch "))]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("fastnet-train: ")
    assert folder_left or not (cwd / "outputs").exists()
    return said[0].removeprefix("fastnet-train: ")


@pytest.fixture
def mine(tmp_path: Path, digits: Path) -> Path:
    """A folder of one's own: 3 classes, 16 pictures each to train, 4 to evaluate."""
    for split, count in (("train", 16), ("val", 4)):
        for digit in ("0", "1", "2"):
            (tmp_path / "mine" / split / digit).mkdir(parents=True)
            for file in sorted((digits / split / digit).iterdir())[:count]:
                shutil.copy(file, tmp_path / "mine" / split / digit)
    return tmp_path / "mine"


def test_a_missing_or_empty_folder(tmp_path: Path, mine: Path) -> None:
    assert refused(tmp_path, "data.root=nowhere", *TWO) == "data.root=nowhere does not exist: give a folder with train/ and val/ in it."
    shutil.rmtree(mine / "val")
    assert f"The data folder {mine}/val does not exist" in refused(tmp_path, "data.root=mine", "global_batch_size=8", *TWO)
    shutil.rmtree(mine / "train")
    (mine / "train" / "0").mkdir(parents=True)
    assert refused(tmp_path, "data.root=mine", *TWO).startswith(f"{mine}/train holds no pictures")


def test_a_class_that_only_val_has(tmp_path: Path, mine: Path) -> None:
    (mine / "val" / "2").rename(mine / "val" / "two")
    sentence = refused(tmp_path, "data.root=mine", "global_batch_size=8", *TWO)
    assert sentence == f"{mine}/val has the class 'two', which the training data lacks: remove it or add it there."


@pytest.mark.parametrize("data", ["digits", "digits_torch"])
def test_a_picture_that_cannot_be_read(tmp_path: Path, mine: Path, data: str) -> None:
    bad = sorted((mine / "train" / "1").iterdir())[3]
    bad.write_bytes(bad.read_bytes()[:60])
    sentence = refused(tmp_path, f"data={data}", "data.root=mine", "global_batch_size=8", "optimizer.warmup_epochs=0", *TWO)
    assert str(bad) in sentence
    assert "remove or replace it" in sentence


def test_a_shard_smaller_than_a_batch(tmp_path: Path, mine: Path) -> None:
    sentence = refused(tmp_path, "data.root=mine", "global_batch_size=64", *TWO)
    assert sentence.startswith("48 samples are too few for a batch of 32 on each of 2 ranks")


def test_a_second_run_on_the_same_folder(tmp_path: Path, mine: Path) -> None:
    words = ["data.root=mine", "global_batch_size=8", *TWO, "trainer.max_epochs=1000", "run_dir=here"]
    first = subprocess.Popen(
        [sys.executable, "-m", "lightning_fastnet.cli.train", *words],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert first.stderr is not None
        assert first.stderr.readline().startswith("quickstart: 2 cpu rank(s)")
        assert "Another process is running in" in refused(tmp_path, "resume=here")
        assert "holds a run already: go on with it by resume=" in refused(tmp_path, *words)
        (other := tmp_path / "other").mkdir()
        assert "Another process is running in" in refused(other, "resume=../here")
    finally:
        first.terminate()
        first.wait()
        first.stderr.close()


def in_a_mount(options: str, folder: Path) -> tuple[str, ...]:
    """A prefix that runs a command with ``folder`` read-only or on a disk of one MiB; root ignores permissions, but not these."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mounting needs root and unshare")
    folder.mkdir(exist_ok=True)
    mount = {"ro": 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"', "full": 'mount -t tmpfs -o size=1m none "$0"'}[options]
    return ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', str(folder))


def test_a_read_only_outputs_folder(tmp_path: Path, digits: Path) -> None:
    prefix = in_a_mount("ro", tmp_path / "disk")
    sentence = refused(tmp_path, f"data.root={digits}", *TWO, "outputs=disk", prefix=prefix)
    assert sentence.endswith("cannot be made (Read-only file system): give another place with outputs=FOLDER.")
    sentence = refused(tmp_path, "-m", f"data.root={digits}", *TWO, "seed=1,2", "outputs=disk", prefix=prefix)
    assert sentence.endswith("cannot be read or written (Read-only file system).")


def test_a_full_outputs_folder(tmp_path: Path, digits: Path) -> None:
    prefix = in_a_mount("full", tmp_path / "disk")
    sentence = refused(tmp_path, f"data.root={digits}", *TWO, "outputs=disk", prefix=prefix)
    assert "MiB left, and a checkpoint of this run takes 3.3" in sentence


def test_the_digits_cannot_be_written(tmp_path: Path) -> None:
    prefix = ("env", f"XDG_CACHE_HOME={tmp_path / 'disk'}", *in_a_mount("ro", tmp_path / "disk"))
    sentence = refused(tmp_path, *TWO, prefix=prefix)
    assert sentence.startswith(f"The digits cannot be written to {tmp_path}/disk/lightning-fastnet/digits (Read-only file system)")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["+trainer.foo=1"], "trainer.foo is no argument of Trainer: correct it or leave it out."),
        (["+strategy.foo=1"], "strategy.foo is no argument of the strategy: correct it or leave it out."),
        (["+optimizer.foo=1"], "optimizer.foo is no argument of the optimizer: correct it or leave it out."),
        (["model.network._target_=nope.Net"], "model.network._target_=nope.Net cannot be imported"),
        (["model.num_classes=9"], "The data has 10 classes, the network 9: set model.num_classes=10."),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_only_the_ranks_can_see(tmp_path: Path, digits: Path, words: list[str], sentence: str) -> None:
    assert refused(tmp_path, f"data.root={digits}", *TWO, *words).startswith(sentence)


def test_what_was_refused_leaves_other_runs_alone(tmp_path: Path, mine: Path) -> None:
    assert command(tmp_path, "data.root=mine", "global_batch_size=8", "trainer.max_epochs=1", "optimizer.warmup_epochs=0").returncode == 0
    refused(tmp_path, "data.root=mine", "global_batch_size=64", *TWO, folder_left=True)
    assert len(runs(tmp_path)) == 1
