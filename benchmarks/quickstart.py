"""The quickstart with several seeds, and with one part after the other exchanged for its plain twin.

    python -m benchmarks.quickstart            # prints the table; five seeds, three of a twin, about 12 minutes on two cores
    python -m benchmarks.quickstart --write    # also puts it into README.md

The runs alternate: for each seed every variant once, so that a drift of the machine meets all of them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import machine_line

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- printed by benchmarks/quickstart.py -->", "<!-- end -->"

VARIANTS: dict[str, list[str]] = {
    "all parts": [],
    "Lightning's DDPStrategy": ["strategy=ddp"],
    "SGD instead of LARS": ["optimizer=sgd_digits"],
    "torchvision instead of DALI": ["data=digits_torch"],
    "without StepProfile": ["~callbacks.step_profile"],
}


def run(seed: int, overrides: list[str]) -> dict[str, Any]:
    """One run in a folder of its own; its metrics, and the wall time from the command to its end."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "lightning_fastnet.cli.train", f"seed={seed}", *overrides], cwd=folder, check=True, capture_output=True
        )
        seconds = time.perf_counter() - began
        (file,) = Path(folder).glob("outputs/quickstart/*/metrics.json")
        metrics: dict[str, Any] = json.loads(file.read_text())
    return {**metrics, "wall_seconds": seconds}


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """Markdown: accuracy with its spread, wall time, throughput as a ratio to the run with all parts."""
    rows = [
        "| run | test accuracy: mean ± std (worst) | reached 97 % | wall time, s (worst) | images/s against all parts [quartiles] |",
        "|---|---|---|---|---|",
    ]
    base = [metrics["train/images_per_second"] for metrics in results["all parts"]]
    for name, runs in results.items():
        top1 = [100 * metrics["test/top1"] for metrics in runs]
        wall = [metrics["wall_seconds"] for metrics in runs]
        ratios = [metrics["train/images_per_second"] / other for metrics, other in zip(runs, base, strict=False)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        reached = sum(metrics["time/to_target_seconds"] is not None for metrics in runs)
        rows.append(
            f"| {name} | {statistics.mean(top1):.2f} ± {statistics.stdev(top1):.2f} % ({min(top1):.1f}) | {reached} of {len(runs)} "
            f"| {statistics.median(wall):.0f} ({max(wall):.0f}) | {middle:.2f} [{low:.2f}, {high:.2f}] |"
        )
    return "\n".join([*rows, "", f"Seeds from 0, as many as the third column says; two ranks; {machine_line()}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--twin-seeds", type=int, default=3, help="of the runs with one part exchanged")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    for seed in range(arguments.seeds):
        for name, overrides in VARIANTS.items():
            if overrides and seed >= arguments.twin_seeds:
                continue
            metrics = run(seed, overrides)
            results[name].append(metrics)
            print(f"seed {seed}, {name}: {100 * metrics['test/top1']:.2f} %, {metrics['wall_seconds']:.1f} s", file=sys.stderr, flush=True)
    printed = table(results)
    print(printed)
    if arguments.write:
        before, _, rest = README.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        README.write_text(f"{before}{BEGIN}\n{printed}\n{END}{after}")


if __name__ == "__main__":
    main()
