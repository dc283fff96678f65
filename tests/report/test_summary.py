"""The table at the end shows the run's numbers."""

from pathlib import Path

import pytest

from lightning_fastnet.report.summary import print_summary

METRICS = {
    "val/top1": 0.97654,
    "val/loss": 0.1,
    "test/top1": 0.98125,
    "train/images_per_second": 12345.6,
    "time/total_seconds": 61.26,
    "time/to_target_seconds": 42.04,
    "trainer/global_step": 375,
    "trainer/world_size": 2,
}
PROFILE = {"profile/data_ms": 0.5, "profile/forward_ms": 1.5, "profile/step_ms": 2.0}


@pytest.fixture
def rows(capsys, monkeypatch):
    """Prints a summary and gives its table as {name: value}, and the lines below it."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def summary(metrics=METRICS, target=0.97, verdict=None, folder=Path("run")):
        print_summary("quickstart: finished", metrics, target, verdict, folder)
        lines = capsys.readouterr().out.splitlines()
        cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
        below = lines[max(number for number, line in enumerate(lines) if "│" in line) + 2 :]
        return {name: " ".join(value.split()) for name, value in cells}, [lines[0].strip(), *below]

    return summary


def test_the_table_shows_the_numbers(rows):
    table, lines = rows()
    assert table == {
        "test/top1": "98.12 %",
        "val/top1": "97.65 %",
        "time to 97 %": "42.0 s",
        "train images/s": "12,346",
        "ranks": "2",
        "optimizer steps": "375",
        "total time": "61.3 s",
    }
    assert lines == ["quickstart: finished", "Run folder: run"]


def test_a_target_that_was_missed_is_said_to_be(rows):
    assert rows(METRICS | {"time/to_target_seconds": None}, target=0.985)[0]["time to 98.5 %"] == "not reached"


def test_what_was_not_measured_has_no_row(rows):
    nothing = dict.fromkeys(("val/top1", "test/top1", "train/images_per_second"))
    assert list(rows(METRICS | nothing, target=None)[0]) == ["ranks", "optimizer steps", "total time"]


def test_a_profile_is_shown_in_milliseconds_and_shares_of_a_step(rows):
    table, lines = rows(METRICS | PROFILE, verdict="Compute limits this run.")
    assert list(table.items())[-3:] == [("a step", "2.00 ms"), ("data", "0.50 ms 25 %"), ("forward", "1.50 ms 75 %")]
    assert lines[1:] == ["Compute limits this run.", "Run folder: run"]


def test_a_phase_that_was_not_measured_has_no_row(rows):
    assert list(rows(METRICS | PROFILE | {"profile/data_ms": None})[0])[-2:] == ["a step", "forward"]
    assert "a step" not in rows(METRICS | dict.fromkeys(PROFILE))[0]


def test_a_long_folder_stays_on_one_line(rows):
    folder = Path("/scratch") / ("x" * 200) / "run [1]"
    assert rows(folder=folder)[1][-1] == f"Run folder: {folder}"
