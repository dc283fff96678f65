"""``fastnet-train -m``: jobs one after the other, with several ranks each, and the table of what came out. Real processes."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lightning_fastnet.cli.run import FOLDER, Interrupted
from lightning_fastnet.cli.sweep import Sweep, over_seeds
from lightning_fastnet.errors import UserError
from tests.cli.command import command, environment

TINY = [
    "trainer.accelerator=cpu",
    "trainer.devices=2",
    "trainer.max_epochs=1",
    "trainer.limit_train_batches=2",
    "trainer.limit_val_batches=2",
    "trainer.limit_test_batches=2",
    "optimizer.warmup_epochs=0.5",
    "model.network._target_=tests.cli.parts.DropoutNet",
]


def table(sweep: Path) -> list[dict[str, str]]:
    with (sweep / "sweep.csv").open(newline="") as rows:
        return list(csv.DictReader(rows))


def test_jobs_one_after_the_other_and_a_failing_one_stops_nothing(tmp_path: Path, digits: Path) -> None:
    pytest.importorskip("nvidia.dali")
    done = command(tmp_path, "-m", f"data.root={digits}", *TINY, "seed=1,2", "trainer.max_epochs=1,one")
    assert done.returncode == 2, done.stderr
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    assert {path.name for path in tmp_path.iterdir()} == {"outputs"}, "Hydra leaves nothing of its own beside"
    rows = table(sweep)
    assert [(row["job"], row["seed"], row["trainer.max_epochs"], row["status"]) for row in rows] == [
        ("0", "1", "1", "finished"),
        ("1", "2", "1", "finished"),
        ("2", "1", "one", "failed"),
        ("3", "2", "one", "failed"),
    ]
    for row in rows:
        if row["status"] == "finished":
            metrics = json.loads((Path(row["folder"]) / "metrics.json").read_text())
            assert Path(row["folder"]) == sweep / row["job"]
            assert float(row["val/top1"]) == metrics["val/top1"]
            assert metrics["trainer/world_size"] == 2
            assert metrics["trainer/global_step"] == 2
        else:
            assert "trainer.max_epochs=one must be" in row["message"]
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"fastnet-train: 2 of 4 jobs failed (job 2, 3): see {sweep}/sweep.csv."
    for words in ("seed", "finished", "failed", f"Sweep folder: {sweep}"):
        assert words in done.stdout

    # typed again, it does what is left and nothing twice
    again = command(tmp_path, "-m", f"data.root={digits}", *TINY, "seed=1,2,3", "resume=auto")
    assert again.returncode == 0, again.stderr
    (second,) = set((tmp_path / "outputs" / "sweeps").iterdir()) - {sweep}
    assert [row["folder"] for row in table(second)] == [str(sweep / "0"), str(sweep / "1"), str(second / "2")]
    assert sorted(path.name for path in second.iterdir()) == ["2", "multirun.yaml", "sweep.csv"]


def test_two_sweeps_at_once_with_jobs_of_unequal_length(tmp_path: Path, digits: Path) -> None:
    """Ranks that ran a sweep of their own would meet in different jobs, and wait for each other for ever."""
    pytest.importorskip("nvidia.dali")
    tiny = [word for word in TINY if "max_epochs" not in word]
    arguments = ["-m", f"data.root={digits}", *tiny, "trainer.max_epochs=2,1"]
    sweeps = [
        subprocess.Popen([sys.executable, "-m", "lightning_fastnet.cli.train", *arguments, f"seed={seed}"], cwd=tmp_path, env=environment())
        for seed in (1, 2)
    ]
    assert [sweep.wait(timeout=200) for sweep in sweeps] == [0, 0]
    folders = list((tmp_path / "outputs" / "sweeps").iterdir())
    assert len(folders) == 2
    for folder in folders:
        steps = [json.loads((Path(row["folder"]) / "metrics.json").read_text())["trainer/global_step"] for row in table(folder)]
        assert steps == [4, 2]
        assert len({row["seed"] for row in table(folder)}) == 1


def test_ctrl_c_ends_the_sweep_and_leaves_no_process(tmp_path: Path, digits: Path) -> None:
    pytest.importorskip("nvidia.dali")
    arguments = ["-m", f"data.root={digits}", *TINY[:2], "seed=1,2,3", "trainer.max_epochs=50"]
    started = subprocess.Popen(
        [sys.executable, "-m", "lightning_fastnet.cli.train", *arguments],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    lines = []
    for said in started.stderr:
        lines.append(said)
        if said.startswith("epoch 1/"):
            started.send_signal(signal.SIGINT)
            break
    out, rest = started.communicate(timeout=60)
    assert started.returncode == 130, "".join(lines) + rest
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    (row,) = table(sweep)
    assert row["status"] == "interrupted"
    assert (sweep / "0" / "checkpoints" / "last.ckpt").is_file()
    assert "Sweep folder:" in out
    assert not left_over(sweep)


def left_over(folder: Path) -> list[str]:
    """Processes that still name a folder in their command line, some seconds later."""
    for _ in range(50):
        found = []
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = cmdline.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in words:
                found.append(words)
        if not found:
            return []
        time.sleep(0.1)
    return found


def test_two_sweeps_in_the_same_second_have_two_folders() -> None:
    code = "from lightning_fastnet.cli.configs import register; from omegaconf import OmegaConf; register(); "
    code += "c = OmegaConf.create({'a': '${fastnet.stamp:}', 'b': '${fastnet.stamp:}'}); print(c.a, c.b)"
    names = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert names[0][0] == names[0][1], "one sweep, one folder"
    assert names[0][0].rpartition("_")[2] != names[1][0].rpartition("_")[2], "two sweeps, two folders, whatever the clock says"


def test_seeds_are_averaged_setting_by_setting() -> None:
    rows = [
        {"job": seed, "status": "finished", "seed": str(seed), "lr": lr, "momentum": "0.9", "val/top1": top1, "folder": "f"}
        for lr, shares in (("1", (0.5, 0.6, 0.7)), ("2", (0.25, 0.35)), ("3", (0.1,)))
        for seed, top1 in enumerate(shares)
    ]
    rows.append({"job": 9, "status": "failed", "seed": "9", "lr": "1", "momentum": "0.9", "val/top1": None})
    assert over_seeds(rows) == ["lr=1: val/top1 60.00 ± 10.00 % over 3 seeds", "lr=2: val/top1 30.00 ± 7.07 % over 2 seeds"]
    assert over_seeds(rows[:3]) == ["val/top1 60.00 ± 10.00 % over 3 seeds"]
    assert over_seeds([{"job": 0, "status": "finished", "val/top1": 0.5}]) == []


def test_a_sweep_inside_torchrun_is_refused(tmp_path: Path) -> None:
    outside = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    done = command(tmp_path, "-m", "seed=1,2", **outside)
    assert done.returncode == 2
    assert done.stderr == "fastnet-train: A sweep starts the ranks of its jobs itself: run it without torchrun or srun.\n"


def test_the_table_is_true_after_each_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep()

    def run(top1: float) -> Any:
        return lambda folder: {"val/top1": top1, "run/status": "finished", FOLDER: str(folder)}

    def fail(folder: Path) -> dict[str, Any]:
        raise RuntimeError("first line\nlast line")

    def interrupted(folder: Path) -> dict[str, Any]:
        raise KeyboardInterrupt

    assert sweep.job(tmp_path, 0, ["seed=1", "+a.b=2"], run(0.5)) == 0.5
    assert len(table(tmp_path)) == 1
    assert sweep.job(tmp_path, 1, ["seed=2", "+a.b=2"], fail) is None
    with pytest.raises(KeyboardInterrupt):
        sweep.job(tmp_path, 2, ["seed=3", "+a.b=2"], interrupted)
    rows = table(tmp_path)
    assert [(row["seed"], row["a.b"], row["status"], row["val/top1"], row["message"]) for row in rows] == [
        ("1", "2", "finished", "0.5", ""),
        ("2", "2", "failed", "", "last line"),
        ("3", "2", "interrupted", "", ""),
    ]
    with pytest.raises(UserError, match=r"2 of 3 jobs failed \(job 1, 2\)"):
        sweep.finish()
    printed = capsys.readouterr().out
    assert "50.00 %" in printed
    assert "a.b" not in printed, "only what differs between the jobs is a column"


def test_ctrl_c_after_a_jobs_end_ends_the_sweep_too(tmp_path: Path) -> None:
    sweep = Sweep()

    def run(folder: Path) -> dict[str, Any]:
        raise Interrupted("interrupted", {"run/status": "finished", "val/top1": 0.5, FOLDER: str(folder)})

    with pytest.raises(KeyboardInterrupt):
        sweep.job(tmp_path, 0, ["seed=1"], run)
    assert [(row["status"], row["val/top1"]) for row in table(tmp_path)] == [("finished", "0.5")]


def test_the_flag_may_stand_anywhere(tmp_path: Path) -> None:
    done = command(tmp_path, "seed=1,2", "-m", "trainer.max_epochs=one")
    assert done.returncode == 2
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    assert [row["seed"] for row in table(sweep)] == ["1", "2"]
