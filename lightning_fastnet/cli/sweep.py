"""A sweep's jobs, one after the other, and the table of what came out of them."""

import csv
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from lightning_fastnet.cli.run import FOLDER, Interrupted
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.resume import STATUS

_RESULTS = ("val/top1", "test/top1", "val/loss", "train/images_per_second", "time/total_seconds")
_OURS = ("job", "status", "folder", "message")


class Sweep:
    """Runs jobs, each in a folder of its own below the sweep's, and keeps ``sweep.csv`` up to date after each of them.

    A job that fails is a row like the others. Ctrl-C ends the sweep with the job that is running.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._rows: list[dict[str, Any]] = []

    def job(self, folder: Path, number: int, overrides: list[str], run: Callable[[Path], dict[str, Any]]) -> Any:
        """Runs one job and writes down what came out.

        Args:
            folder: the sweep's; the job gets ``folder/<number>``.
            overrides: what makes this job, ``key=value`` each.
            run: does it, in the folder that it is given, and returns its metrics.

        Returns:
            Its ``val/top1``, for sweepers that optimise; None if it failed.

        Raises:
            KeyboardInterrupt: to end the sweep.
        """
        self._folder = folder.absolute()
        print(f"job {number}: {' '.join(overrides) or '(no changes)'}", file=sys.stderr, flush=True)
        row: dict[str, Any] = {"job": number, "status": "failed", **dict(_split(one) for one in overrides), "folder": ""}
        self._rows.append(row)
        metrics: dict[str, Any] = {}
        try:
            metrics = run(self._folder / str(number))
            row["status"] = metrics.get(STATUS, "finished")
        except Interrupted as error:
            metrics = error.metrics
            row["status"], row["message"] = ("finished" if metrics.get(STATUS) == "finished" else "interrupted"), str(error)
            raise KeyboardInterrupt from None
        except KeyboardInterrupt:
            row["status"] = "interrupted"
            raise
        except Exception as error:
            row["message"] = str(error).strip().splitlines()[-1]
            print(f"job {number} failed: {row['message']}", file=sys.stderr, flush=True)
        finally:
            row.update({name: metrics.get(name) for name in _RESULTS})
            own = self._folder / str(number)
            row["folder"] = metrics.get(FOLDER, str(own))
            if row["folder"] != str(own):  # it went on with an earlier run, and Hydra made a folder for it
                with suppress(OSError):  # something is in it
                    own.rmdir()
            self._write()
        return metrics.get("val/top1")

    def _write(self) -> None:
        assert self._folder is not None
        columns = list(dict.fromkeys(name for row in self._rows for name in row))
        columns = [name for name in columns if name not in ("folder", "message")] + ["folder", "message"]
        file = self._folder / "sweep.csv"
        beside = file.with_suffix(".tmp")
        with beside.open("w", newline="") as rows:
            writer = csv.DictWriter(rows, columns)
            writer.writeheader()
            writer.writerows(self._rows)
        os.replace(beside, file)

    def print_table(self) -> None:
        """The jobs so far, on standard output; nothing where there is no sweep."""
        if self._folder is None:
            return
        from rich.console import Console
        from rich.table import Table

        settings = dict.fromkeys(name for row in self._rows for name in row if name not in (*_OURS, *_RESULTS))
        varied = [name for name in settings if len({row.get(name) for row in self._rows}) > 1]
        table = Table(title="Sweep", title_justify="left")
        for name in ("job", *varied, "val/top1", "test/top1", "seconds", "status"):
            table.add_column(name, justify="left" if name in varied or name == "status" else "right")
        for row in self._rows:
            shares = ("-" if row.get(name) is None else f"{100 * row[name]:.2f} %" for name in ("val/top1", "test/top1"))
            seconds = row.get("time/total_seconds")
            cells = [str(row["job"]), *(str(row.get(name, "")) for name in varied), *shares]
            table.add_row(*cells, "-" if seconds is None else f"{seconds:.1f}", row["status"])
        console = Console()
        console.print(table)
        for line in over_seeds(self._rows):
            console.print(line, soft_wrap=True, highlight=False)
        console.print(f"Sweep folder: {self._folder}", soft_wrap=True, highlight=False)

    def finish(self) -> None:
        """Prints the table.

        Raises:
            UserError: some jobs failed.
        """
        self.print_table()
        failed = [str(row["job"]) for row in self._rows if row["status"] != "finished"]
        if failed:
            raise UserError(f"{len(failed)} of {len(self._rows)} jobs failed (job {', '.join(failed)}): see {self._folder}/sweep.csv.")


def over_seeds(rows: Sequence[Mapping[str, Any]], metric: str = "val/top1") -> list[str]:
    """A line for each setting that ran with several seeds: mean and standard deviation (N - 1) of a share, in percent."""
    groups: dict[tuple[tuple[str, Any], ...], list[float]] = {}
    for row in rows:
        if row.get("seed") is not None and row.get(metric) is not None and row["status"] == "finished":
            settings = tuple((name, value) for name, value in row.items() if name not in (*_OURS, *_RESULTS, "seed"))
            groups.setdefault(settings, []).append(100 * row[metric])
    varied = {one for settings in groups for one in settings if any(one not in other for other in groups)}
    lines = []
    for settings, shares in groups.items():
        if len(shares) > 1:
            what = ", ".join(f"{name}={value}" for name, value in settings if (name, value) in varied)
            spread = f"{metric} {mean(shares):.2f} ± {stdev(shares):.2f} %"
            lines.append(f"{f'{what}: ' if what else ''}{spread} over {len(shares)} seeds")
    return lines


def _split(override: str) -> tuple[str, str]:
    key, _, value = override.partition("=")
    return key.lstrip("+"), value
