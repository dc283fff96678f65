"""One line that says on what a figure was measured."""

import os
import platform
from datetime import date
from pathlib import Path

import torch


def machine_line() -> str:
    """Processor, cores, torch and date."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{os.cpu_count()} cores of {model}{gpu}, torch {torch.__version__.partition('+')[0]}, {date.today().isoformat()}"
