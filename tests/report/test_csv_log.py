"""The file goes on where the checkpoint was written: rows before it stay as they are, later ones are written once."""

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger

from lightning_fastnet.report.csv_log import ResumableCSVLogger


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]


def log(folder: Path, steps: range, from_step: int | None = None, logger_class: Any = ResumableCSVLogger, **more: float) -> None:
    arguments = {} if logger_class is CSVLogger else {"from_step": from_step}
    logger = logger_class(save_dir=str(folder), name="", version="", **arguments)
    for step in steps:
        logger.log_metrics({"loss": step / 8, **more}, step=step)
    logger.finalize("success")


def test_a_new_run_is_what_lightnings_logger_writes(tmp_path: Path) -> None:
    log(tmp_path / "ours", range(4))
    log(tmp_path / "theirs", range(4), logger_class=CSVLogger)
    assert (tmp_path / "ours" / "metrics.csv").read_bytes() == (tmp_path / "theirs" / "metrics.csv").read_bytes()


def test_a_resumed_run_is_one_file_as_of_a_run_that_was_never_stopped(tmp_path: Path) -> None:
    log(tmp_path / "whole", range(9))
    log(tmp_path / "part", range(6))
    log(tmp_path / "part", range(4, 9), from_step=4)
    assert (tmp_path / "part" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


def test_new_columns_and_half_a_last_line_are_survived(tmp_path: Path) -> None:
    log(tmp_path, range(3))
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("\x00,one,two\n0.5")  # a damaged line, and killed while writing
    log(tmp_path, range(3, 5), from_step=3, top1=0.25)
    assert [row["step"] for row in rows(tmp_path)] == ["0", "1", "2", "3", "4"]
    assert [row.get("top1") for row in rows(tmp_path)] == [None, None, None, "0.25", "0.25"]


def test_without_a_file_it_begins_one(tmp_path: Path) -> None:
    log(tmp_path, range(2), from_step=7)
    assert [row["step"] for row in rows(tmp_path)] == ["0", "1"]
