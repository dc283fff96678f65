"""The table at a run's end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_COUNTS = (
    ("predict/pictures", "pictures predicted", "{:,}"),
    ("trainer/world_size", "ranks", "{}"),
    ("trainer/global_step", "optimizer steps", "{}"),
    ("time/total_seconds", "total time", "{:.1f} s"),
)


def print_line(metrics: Mapping[str, Any]) -> None:
    """One line instead of the table, where many runs follow each other."""
    shares = [f"{name} {100 * metrics[name]:.2f} %" for name in ("test/top1", "val/top1") if metrics.get(name) is not None]
    print("  ".join([str(metrics.get("run/status", "")), *shares, f"{metrics['time/total_seconds']:.1f} s"]), flush=True)


def print_summary(title: str, metrics: Mapping[str, Any], target: float | None, verdict: str | None, folder: Path) -> None:
    """Prints accuracy, speed, where a step's time went (``profile/*_ms``) and the run's folder, on standard output."""
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name in ("test/top1", "val/top1"):
        if (share := metrics.get(name)) is not None:
            on_val = name == "test/top1" and metrics.get("test/split") == "val"
            table.add_row(f"{name} (on val/: no test/)" if on_val else name, f"{100 * share:.2f} %")
    if target is not None and metrics.get("run/status") != "stopped":
        reached = metrics.get("time/to_target_seconds")
        table.add_row(f"time to {100 * target:g} %", "not reached" if reached is None else f"{reached:.1f} s")
    if (rate := metrics.get("train/images_per_second")) is not None:
        table.add_row("train images/s", f"{rate:,.0f}")
    for name, label, form in _COUNTS:
        if (count := metrics.get(name)) is not None:
            table.add_row(label, form.format(count))
    phases = {name[8:-3]: value for name, value in metrics.items() if name.startswith("profile/") and value is not None}
    step = phases.pop("step", None)
    if step:
        table.add_section()
        table.add_row("a step", f"{step:.2f} ms")
        for phase, milliseconds in phases.items():
            table.add_row(f"  {phase}", f"{milliseconds:.2f} ms {100 * milliseconds / step:4.0f} %")
    console = Console()
    console.print(table)
    if verdict:
        console.print(verdict, soft_wrap=True)
    console.print(f"Run folder: {folder}", soft_wrap=True, highlight=False)
