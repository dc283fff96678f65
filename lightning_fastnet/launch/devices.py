"""How many ranks a machine gets, and of which kind."""

import os
from dataclasses import dataclass

from lightning_fastnet.errors import UserError

CPU_RANKS = 2  # without a GPU: enough to be a real data-parallel run, few enough for a laptop


@dataclass(frozen=True)
class Devices:
    """What one machine gives a run: ``accelerator`` in Lightning's words (``"gpu"`` or ``"cpu"``) and the ranks on it."""

    accelerator: str
    ranks: int


def resolve_devices(accelerator: str, devices: int | str) -> Devices:
    """Turns ``"auto"`` into what this machine has, and refuses what it has not.

    Args:
        accelerator: ``"auto"``, ``"gpu"``, ``"cuda"`` or ``"cpu"``.
        devices: ranks, or ``"auto"``: every GPU, or two ranks on a CPU (one where there is a single core).

    Raises:
        UserError: more GPUs than there are, or a number that is none.
    """
    if accelerator not in ("auto", "gpu", "cuda", "cpu"):
        raise UserError(f"trainer.accelerator={accelerator} is unknown here: choose auto, gpu or cpu.")
    gpus = 0 if accelerator == "cpu" else _gpu_count()
    if accelerator in ("gpu", "cuda") and not gpus:
        raise UserError("trainer.accelerator=gpu, but torch sees no GPU on this machine: use trainer.accelerator=cpu.")
    kind = "gpu" if gpus else "cpu"
    if devices == "auto":
        return Devices(kind, gpus or min(CPU_RANKS, os.cpu_count() or 1))
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise UserError(f"trainer.devices={devices} must be auto or a number of ranks of at least 1.")
    if gpus and devices > gpus:
        raise UserError(f"trainer.devices={devices}, but this machine has {gpus} GPUs: ask for at most {gpus}, or trainer.accelerator=cpu.")
    return Devices(kind, devices)


def _gpu_count() -> int:
    import torch  # counts through the driver's library, without a CUDA context

    return torch.cuda.device_count()


def cpu_threads(ranks: int) -> int:
    """Threads for one of ``ranks`` processes on this machine, so that together they fill its cores once."""
    return max(1, (os.cpu_count() or 1) // ranks)
