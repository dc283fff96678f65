"""Stopped, killed, damaged: the resumed run ends as the one that was never stopped, bit for bit. Real processes."""

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_fastnet.launch.checkpoints import read_checkpoint
from tests.cli.command import command, runs

pytest.importorskip("nvidia.dali")

STEPS_A_EPOCH, EPOCHS = 8, 3
STOP_AT = 12  # in the middle of the second epoch


def line(digits: Path, ranks: int, *more: str) -> list[str]:
    return [
        f"data.root={digits}",
        "trainer.accelerator=cpu",
        f"trainer.devices={ranks}",
        f"trainer.max_epochs={EPOCHS}",
        f"trainer.limit_train_batches={STEPS_A_EPOCH}",
        "trainer.limit_val_batches=2",
        "trainer.limit_test_batches=2",
        "trainer.log_every_n_steps=5",
        "optimizer.warmup_epochs=1",
        "model.network._target_=tests.cli.parts.DropoutNet",
        "+callbacks.signal_at._target_=tests.cli.parts.SignalAt",
        *more,
    ]


def last(run: Path) -> dict[str, Any]:
    return dict(torch.load(run / "checkpoints" / "last.ckpt", weights_only=True))


def logged(run: Path) -> list[dict[str, str]]:
    """metrics.csv without what depends on time, in the order of the steps."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = [{name: value for name, value in row.items() if value and "profile" not in name} for row in csv.DictReader(file)]
    return [row for row in rows if row.keys() - {"step", "epoch"}]


def assert_same_end(run: Path, whole: Path) -> None:
    mine, wanted = last(run), last(whole)
    assert mine["global_step"] == wanted["global_step"] == STEPS_A_EPOCH * EPOCHS
    for name, value in wanted["state_dict"].items():
        assert torch.equal(mine["state_dict"][name], value), name
    torch.testing.assert_close(mine["optimizer_states"][0]["state"], wanted["optimizer_states"][0]["state"], rtol=0, atol=0)
    assert mine["lr_schedulers"] == wanted["lr_schedulers"]
    for ours, theirs in zip(mine["random_state"], wanted["random_state"], strict=True):
        assert torch.equal(ours.pop("torch"), theirs.pop("torch"))
        assert ours == theirs
    assert logged(run) == logged(whole)
    ended, uninterrupted = (json.loads((folder / "metrics.json").read_text()) for folder in (run, whole))
    for name in ("test/top1", "test/loss", "val/top1", "val/loss", "trainer/global_step", "run/status"):
        assert ended[name] == uninterrupted[name], name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> dict[tuple[int, str], Path]:
    """The runs that nobody stopped, by ranks and data."""
    folders = {}
    for ranks, data in ((2, "digits"), (1, "digits"), (2, "digits_torch")):
        cwd = tmp_path_factory.mktemp("whole")
        done = command(cwd, *line(digits, ranks, f"data={data}"))
        assert done.returncode == 0, done.stderr
        folders[ranks, data] = runs(cwd)[0]
    return folders


@pytest.mark.parametrize(("ranks", "data"), [(2, "digits"), (1, "digits"), (2, "digits_torch")])
def test_ctrl_c_then_resume_is_never_having_stopped(
    tmp_path: Path, digits: Path, whole: dict[tuple[int, str], Path], ranks: int, data: str
) -> None:
    words = line(digits, ranks, f"data={data}")
    stopped = command(tmp_path, *words, SIGNAL_AT=f"{STOP_AT}:SIGINT")
    (run,) = runs(tmp_path)
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stderr.strip().splitlines()[-1] == f"fastnet-train: interrupted; to go on: fastnet-train resume={run}"
    assert "stopped" in stopped.stdout
    assert STOP_AT <= last(run)["global_step"] < 2 * STEPS_A_EPOCH, "within the epoch"
    assert json.loads((run / "metrics.json").read_text())["run/status"] == "stopped"

    resumed = command(tmp_path, f"resume={run}")
    assert resumed.returncode == 0, resumed.stderr
    assert runs(tmp_path) == [run]
    assert_same_end(run, whole[ranks, data])


def test_killed_then_resume_auto_is_never_having_stopped(tmp_path: Path, digits: Path, whole: dict[tuple[int, str], Path]) -> None:
    killed = command(tmp_path, *line(digits, 2), SIGNAL_AT=f"{STOP_AT}:SIGKILL")
    assert killed.returncode == -signal.SIGKILL
    (run,) = runs(tmp_path)
    assert last(run)["global_step"] == STEPS_A_EPOCH
    other = command(tmp_path, *line(digits, 2), "resume=auto", "seed=5")  # another config: a run of its own
    assert other.returncode == 0, other.stderr
    assert len(runs(tmp_path)) == 2
    resumed = command(tmp_path, *line(digits, 2), "resume=auto")
    assert resumed.returncode == 0, resumed.stderr
    assert len(runs(tmp_path)) == 2
    assert_same_end(run, whole[2, "digits"])

    again = command(tmp_path, *line(digits, 2), "resume=auto")
    assert again.returncode == 0
    assert again.stderr.strip() == f"quickstart: finished already, {run}"


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path: Path, digits: Path, whole: dict[tuple[int, str], Path]) -> None:
    command(tmp_path, *line(digits, 2), SIGNAL_AT=f"{2 * STEPS_A_EPOCH + 3}:SIGKILL")
    (run,) = runs(tmp_path)
    newest = run / "checkpoints" / "last.ckpt"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1  # one bit
    newest.write_bytes(content)
    resumed = command(tmp_path, f"resume={run}")
    assert resumed.returncode == 0, resumed.stderr
    assert f"warning: the checkpoint {newest} is damaged and passed over" in resumed.stderr
    assert_same_end(run, whole[2, "digits"])
    read_checkpoint(run / "checkpoints" / "previous.ckpt")  # the damaged one did not take the place of the good one


def test_a_run_can_be_made_longer(tmp_path: Path, digits: Path) -> None:
    assert command(tmp_path, *line(digits, 1)).returncode == 0
    (run,) = runs(tmp_path)
    interrupted = command(tmp_path, f"resume={run}", f"trainer.max_epochs={EPOCHS + 1}", SIGNAL_AT=f"{STEPS_A_EPOCH * EPOCHS + 2}:SIGINT")
    assert interrupted.returncode == 130, "it had finished once, but not this length"
    killed = command(tmp_path, f"resume={run}", SIGNAL_AT=f"{STEPS_A_EPOCH * EPOCHS + 4}:SIGKILL")
    assert killed.returncode == -signal.SIGKILL
    assert json.loads((run / "metrics.json").read_text())["run/status"] == "running", "a killed run has not finished"
    longer = command(tmp_path, f"resume={run}")
    assert longer.returncode == 0, longer.stderr
    assert last(run)["global_step"] == STEPS_A_EPOCH * (EPOCHS + 1)
    assert [row["step"] for row in logged(run) if "val/top1" in row] == ["7", "15", "23", "31"]


def test_a_refused_resume_leaves_the_run_as_it_was(tmp_path: Path, digits: Path) -> None:
    assert command(tmp_path, *line(digits, 1)).returncode == 0
    (run,) = runs(tmp_path)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    for words, sentence in (
        (["optimizer.lr=0.5"], "optimizer.lr=0.5, but the run that goes on has "),
        (["trainer.max_epochs=2", "optimizer.warmup_epochs=0"], f"trainer.max_epochs=2, but the run that goes on has trained {EPOCHS}"),
        (["trainer.max_epochs=9", "model.network._target_=lightning_fastnet.models.networks.LeNet"], "is of another model: "),
    ):
        done = command(tmp_path, f"resume={run}", *words)
        assert done.returncode == 2, done.stderr
        assert sentence in done.stderr.splitlines()[-1]
        assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before, words
    again = command(tmp_path, f"resume={run}")
    assert again.stderr.strip() == f"quickstart: finished already, {run}"


def test_resume_auto_without_a_run_begins_one(tmp_path: Path, digits: Path) -> None:
    done = command(tmp_path, *line(digits, 1), "resume=auto", "trainer.max_epochs=1")
    assert done.returncode == 0, done.stderr
    assert len(runs(tmp_path)) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["resume=nowhere"], "resume=nowhere does not exist: give a run's folder, or resume=auto for the newest of this recipe."),
        (["resume=."], "is not a run's folder: it has no config.yaml that can be read."),
        (["ckpt=x.ckpt"], "ckpt= goes with task=validate, test or predict; to go on with a run use resume=FOLDER."),
        (["task=test"], "task=test needs the run to take the weights from"),
        (["task=tset"], "task=tset is unknown: choose one of fit, validate, test, predict."),
        (["task=test", "ckpt=nowhere"], "ckpt=nowhere does not exist"),
        (["task=test", "ckpt=.", "resume=auto"], "resume= is for training"),
    ],
)
def test_what_cannot_be_resumed_is_a_sentence(tmp_path: Path, words: list[str], sentence: str) -> None:
    done = command(tmp_path, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "outputs").exists()
