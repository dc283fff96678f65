"""learning_curve.png: accuracy and loss against epochs, from a run's metrics.csv."""

import csv
import math
from contextlib import suppress
from pathlib import Path


def read_column(csv_file: Path, name: str) -> tuple[list[float], list[float]]:
    """(epochs, values) of a metric, finite ones only; a row's epoch is counted from 0 and stands for the end of that epoch."""
    epochs, values = [], []
    with csv_file.open(newline="") as rows:
        for row in csv.DictReader(rows):
            with suppress(KeyError, TypeError, ValueError):  # no such column, not in this row, or a line that was cut off
                epoch, value = float(row["epoch"]) + 1, float(row[name])
                if math.isfinite(value):
                    epochs.append(epoch)
                    values.append(value)
    return epochs, values


def draw_learning_curve(csv_file: Path, picture: Path, target: float | None, title: str) -> None:
    """Draws ``val/top1`` (with the target as a line) above ``train/loss`` and ``val/loss``."""
    from matplotlib.figure import Figure  # without pyplot: no window, no global state

    figure = Figure(figsize=(7, 6), layout="constrained")
    accuracy, loss = figure.subplots(2, 1, sharex=True)
    epochs, top1 = read_column(csv_file, "val/top1")
    accuracy.plot(epochs, [100 * value for value in top1], marker="o", color="tab:blue", label="val/top1")
    if target is not None:
        accuracy.axhline(100 * target, linestyle="--", color="tab:gray", label=f"target {100 * target:g} %")
    accuracy.set(ylabel="top-1 accuracy, %", title=title)
    accuracy.legend(loc="lower right")
    for name, colour in (("train/loss", "tab:orange"), ("val/loss", "tab:blue")):
        x, y = read_column(csv_file, name)
        by_epoch: dict[float, list[float]] = {}
        for epoch, value in zip(x, y, strict=True):
            by_epoch.setdefault(epoch, []).append(value)
        loss.plot(list(by_epoch), [sum(values) / len(values) for values in by_epoch.values()], marker=".", color=colour, label=name)
    loss.set(xlabel="epoch", ylabel="cross-entropy", yscale="log")
    loss.legend(loc="upper right")
    figure.savefig(picture, dpi=110)
