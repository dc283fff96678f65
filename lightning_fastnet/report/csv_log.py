"""ResumableCSVLogger: metrics.csv goes on where the checkpoint was written."""

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from typing_extensions import override


class ResumableCSVLogger(CSVLogger):
    """Lightning's CSVLogger, which deletes the file of an earlier run, as one that appends to it.

    Args:
        from_step: rows of this optimizer step and later, which the resumed run writes again, are dropped; None: a new file.
        **csv_logger: what :class:`lightning.pytorch.loggers.CSVLogger` takes.
    """

    def __init__(self, from_step: int | None = None, **csv_logger: Any) -> None:
        super().__init__(**csv_logger)
        if from_step is not None:
            # there before the first use, which would make a writer that deletes
            self._experiment = _Appending(self.log_dir, from_step)


class _Appending(ExperimentWriter):
    def __init__(self, log_dir: str, from_step: int) -> None:
        super().__init__(log_dir)
        file = Path(self.metrics_file_path)
        if not file.exists():
            return
        with file.open(newline="") as rows:
            reader = csv.DictReader(rows)
            self.metrics_keys = list(reader.fieldnames or [])
            kept = [row for row in reader if (row.get("step") or "").isdecimal() and int(row["step"]) < from_step]
        beside = file.with_suffix(".tmp")
        with beside.open("w", newline="") as rows:
            writer = csv.DictWriter(rows, self.metrics_keys, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(kept)
        beside.replace(file)

    @override
    def _check_log_dir_exists(self) -> None:
        """Lightning's version deletes the file."""
