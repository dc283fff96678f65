"""Runs the command as a user types it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def environment(**more: str) -> dict[str, str]:
    """This one's, without a launcher's leftovers; ``tests`` can be imported."""
    kept = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def command(cwd: Path, *arguments: str, launcher: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
    """``fastnet-train ARGUMENTS`` in ``cwd``, to its end."""
    program = launcher or (sys.executable,)
    return subprocess.run(
        [*program, "-m", "lightning_fastnet.cli.train", *arguments],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=200,
    )


def runs(cwd: Path, recipe: str = "quickstart") -> list[Path]:
    """The folders of a recipe's runs, the oldest first."""
    folder = cwd / "outputs" / recipe
    return sorted(folder.iterdir()) if folder.is_dir() else []
