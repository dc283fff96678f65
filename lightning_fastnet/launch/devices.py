"""How many ranks a machine gets, and of which kind."""

import os
from dataclasses import dataclass

from lightning_fastnet.errors import UserError

CPU_RANKS_A_CORE = 8  # more only wait for each other; a number of ranks this high is a slip of the keyboard
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
        UserError: more GPUs than there are, far more ranks than CPU cores, or a number that is none.
    """
    if accelerator not in ("auto", "gpu", "cuda", "cpu"):
        raise UserError(f"trainer.accelerator={accelerator} is unknown here: choose auto, gpu or cpu.")
    gpus = 0 if accelerator == "cpu" else _gpu_count()
    if accelerator in ("gpu", "cuda") and not gpus:
        raise UserError("trainer.accelerator=gpu, but torch sees no GPU on this machine: use trainer.accelerator=cpu.")
    kind = "gpu" if gpus else "cpu"
    if devices == "auto":
        return Devices(kind, gpus or min(CPU_RANKS, cores()))
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise UserError(f"trainer.devices={devices} must be auto or a number of ranks of at least 1.")
    if gpus and devices > gpus:
        raise UserError(f"trainer.devices={devices}, but this machine has {gpus} GPUs: ask for at most {gpus}, or trainer.accelerator=cpu.")
    most = CPU_RANKS_A_CORE * cores()
    if kind == "cpu" and devices > most:
        raise UserError(f"trainer.devices={devices} is more than the {cores()} CPU cores here can carry: ask for at most {most}.")
    return Devices(kind, devices)


def _gpu_count() -> int:
    import torch  # counts through the driver's library, without a CUDA context

    return torch.cuda.device_count()


def cores() -> int:
    """CPU cores that this process may use: a container or a job often has fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_threads(ranks: int) -> int:
    """Threads for one of ``ranks`` processes on this machine, so that together they fill the cores once."""
    return max(1, cores() // ranks)
