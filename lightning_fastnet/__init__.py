"""Fast large-batch training for PyTorch Lightning.

Every public name is loaded on first use: importing one part does not import Lightning, Hydra or DALI for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_fastnet.comm.hook import AllReduceState, all_reduce_hook
    from lightning_fastnet.data.datamodule import DALIDataModule
    from lightning_fastnet.data.loader import DALILoader
    from lightning_fastnet.errors import UserError
    from lightning_fastnet.models.classifier import ImageClassifier
    from lightning_fastnet.optim.lars import LARS
    from lightning_fastnet.plugins.fused_all_reduce import FusedAllReduceStrategy
    from lightning_fastnet.plugins.lars_warmup import LARSWarmup
    from lightning_fastnet.plugins.random_state import RandomState
    from lightning_fastnet.plugins.step_profile import StepProfile

__version__ = "0.1.0"

_HOMES = {
    "AllReduceState": "comm.hook",
    "all_reduce_hook": "comm.hook",
    "DALIDataModule": "data.datamodule",
    "DALILoader": "data.loader",
    "UserError": "errors",
    "ImageClassifier": "models.classifier",
    "LARS": "optim.lars",
    "FusedAllReduceStrategy": "plugins.fused_all_reduce",
    "LARSWarmup": "plugins.lars_warmup",
    "RandomState": "plugins.random_state",
    "StepProfile": "plugins.step_profile",
}

__all__ = [  # noqa: RUF022  # grouped by what they are for
    "FusedAllReduceStrategy",
    "StepProfile",
    "RandomState",
    "LARSWarmup",
    "LARS",
    "DALIDataModule",
    "DALILoader",
    "ImageClassifier",
    "AllReduceState",
    "all_reduce_hook",
    "UserError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
