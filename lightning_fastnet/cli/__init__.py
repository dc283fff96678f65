"""The commands. Hydra lives here and nowhere else."""

import time

STARTED = time.time()
"""When this process began to import a command: what ``time/total_seconds`` counts from."""

IN_SWEEP = "FASTNET_SWEEP"
"""Set in the environment of a sweep's runs, which print a line instead of a table."""
