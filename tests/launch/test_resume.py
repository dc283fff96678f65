"""Which run and which checkpoint: files in a folder, no ranks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.resume import difference, find_run, finished, identity, other_run, readable_checkpoint, saved_config

CONFIG: dict[str, Any] = {
    "recipe_name": "r",
    "seed": 0,
    "run_dir": "<run_dir>",
    "outputs": "outputs",
    "resume": "auto",
    "checkpoint": None,
    "overrides": [],
    "trainer": {"max_epochs": 3, "devices": 2, "accelerator": "cpu", "num_nodes": 1},
    "data": {"batch_size_per_device": 64, "devices": "kept"},
    "callbacks": {"last": {"dirpath": "<run_dir>/checkpoints"}},
}


def make_run(outputs: Path, name: str, age: int, checkpoints: int = 1, **changes: Any) -> Path:
    run = outputs / name
    (run / "checkpoints").mkdir(parents=True)
    config = yaml.safe_load(yaml.safe_dump({**CONFIG, **changes}).replace("<run_dir>", str(run)))
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    for number in range(checkpoints):
        file = run / "checkpoints" / f"{number}.ckpt"
        torch.save({"state_dict": {}}, file)
        os.utime(file, (1e9 - 100 * age + number, 1e9 - 100 * age + number))
    return run


def test_the_identity_is_what_is_computed_not_where(tmp_path: Path) -> None:
    run = make_run(tmp_path, "r/a", 0)
    assert identity(saved_config(run)) == identity(CONFIG)
    assert identity({**CONFIG, "trainer": {**CONFIG["trainer"], "devices": 8}}) == identity(CONFIG)
    for other in ({"seed": 1}, {"trainer": {**CONFIG["trainer"], "max_epochs": 4}}, {"data": {"devices": "other"}}):
        assert identity({**CONFIG, **other}) != identity(CONFIG), other


def test_the_newest_run_of_this_config_is_found(tmp_path: Path) -> None:
    make_run(tmp_path, "r/old", 3)
    newest = make_run(tmp_path, "r/a", 2)
    make_run(tmp_path, "r/other_seed", 1, seed=1)
    make_run(tmp_path, "r/no_checkpoint", 0, checkpoints=0)
    make_run(tmp_path, "s/other_recipe", 0, recipe_name="s")
    assert find_run(tmp_path, CONFIG) == newest
    in_a_sweep = make_run(tmp_path, "sweeps/x/0", 1)
    assert find_run(tmp_path, CONFIG) == in_a_sweep
    assert find_run(tmp_path, {**CONFIG, "seed": 9}) is None
    assert find_run(tmp_path / "nowhere", CONFIG) is None


def test_a_run_with_other_settings_is_named_with_the_first_of_them(tmp_path: Path) -> None:
    assert other_run(tmp_path, CONFIG) is None
    run = make_run(tmp_path, "r/a", 1)
    assert other_run(tmp_path, CONFIG) is None, "the same settings"
    other = {**CONFIG, "trainer": {**CONFIG["trainer"], "max_epochs": 9}}
    assert other_run(tmp_path, other) == f"resume={run} (trainer.max_epochs=3 there, 9 here)"


def test_difference() -> None:
    assert difference({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [1]}}) is None
    assert difference({"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"c": 2}}) == ("b.c", 1, 2)
    assert difference({"a": 1}, {"a": 1, "x": {"y": 2}}) == ("x", None, {"y": 2})


def test_a_folder_with_a_config_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    good = make_run(tmp_path, "r/a", 1)
    (make_run(tmp_path, "r/b", 0) / "config.yaml").write_text("{")
    assert find_run(tmp_path, CONFIG) == good


def test_the_newest_whole_checkpoint_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, "r/a", 0, checkpoints=4)
    for number, damage in ((3, b""), (2, b"no archive")):
        file = run / "checkpoints" / f"{number}.ckpt"
        file.write_bytes(damage)
        os.utime(file, (1e9 + number, 1e9 + number))
    assert readable_checkpoint(run) == run / "checkpoints" / "1.ckpt"
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[3].rpartition("/")[2] for line in said] == ["3.ckpt", "2.ckpt"]


def test_finished_is_said_of_the_same_config_only(tmp_path: Path) -> None:
    run = make_run(tmp_path, "r/a", 0)
    assert finished(run, CONFIG) is None
    (run / "metrics.json").write_text(json.dumps({"run/status": "stopped"}))
    assert finished(run, CONFIG) is None
    (run / "metrics.json").write_text(json.dumps({"run/status": "finished", "val/top1": 0.5}))
    assert finished(run, CONFIG) == {"run/status": "finished", "val/top1": 0.5}
    assert finished(run, {**CONFIG, "trainer": {**CONFIG["trainer"], "max_epochs": 9}}) is None


def test_a_folder_that_is_no_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no config\.yaml"):
        saved_config(tmp_path)
    for text in (b"- 1", b"a: 1"):
        (tmp_path / "config.yaml").write_bytes(text)
        with pytest.raises(UserError, match="not that of a run"):
            saved_config(tmp_path)
    for text in (b"\xff\x00", b"{"):
        (tmp_path / "config.yaml").write_bytes(text)
        with pytest.raises(UserError, match=r"no config\.yaml that can be read"):
            saved_config(tmp_path)


def test_metrics_that_are_damaged_are_not_those_of_a_finished_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, "r/a", 0)
    for text in (b"[1]", b"\xff", b"{"):
        (run / "metrics.json").write_bytes(text)
        assert finished(run, CONFIG) is None


def test_a_copied_folders_dates_say_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, "r/a", 0, checkpoints=0)
    for date, (name, step) in enumerate([("last", 9), ("other", 3), ("best", 6), ("previous", 5)]):
        file = run / "checkpoints" / f"{name}.ckpt"
        torch.save({"state_dict": {}, "global_step": step}, file)
        os.utime(file, (date, date))
    assert readable_checkpoint(run) == run / "checkpoints" / "last.ckpt"
    (run / "checkpoints" / "last.ckpt").write_bytes(b"")
    assert readable_checkpoint(run) == run / "checkpoints" / "best.ckpt"
