"""RandomState: every rank's random generators, in the checkpoint and out of it."""

import random
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from typing_extensions import override

KEY = "random_state"
_STRIDE = 1_000_003  # between the seeds of two ranks


def random_state(device: torch.device) -> dict[str, Any]:
    """The state of Python's, numpy's, torch's and, on CUDA, the device's generator, as plain containers and tensors."""
    version, numbers, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = cast(tuple[Any, ...], np.random.get_state(legacy=True))
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [str(kind), keys.tolist(), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Puts the generators back to where :func:`random_state` found them."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"].cpu())
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)


class RandomState(Callback):
    """Saves the random state of all ranks with each checkpoint and restores it on resume, so that dropout goes on where it stopped.

    Lightning saves none. A run that begins gives each rank generators of its own, or all ranks would drop the same units.
    On another number of ranks the state has no meaning: the ranks begin anew, with a warning.

    Args:
        seed: rank r begins with ``seed + 1000003 r`` (mod 2^32); rank 0 as after ``seed_everything(seed)``.

    Example:
        >>> trainer = Trainer(callbacks=[RandomState(seed=1)], logger=False, enable_progress_bar=False)
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._saved: list[dict[str, Any]] | None = None

    @override
    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        mine = random_state(trainer.strategy.root_device)
        states: list[Any] = [mine]
        if dist.is_initialized() and trainer.world_size > 1:
            states = [None] * trainer.world_size
            dist.all_gather_object(states, mine)
        checkpoint[KEY] = states

    @override
    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._saved = checkpoint.get(KEY)

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = trainer.strategy.root_device
        if self._saved is not None and len(self._saved) == trainer.world_size:
            set_random_state(self._saved[trainer.global_rank], device)
            if not trainer.fit_loop.restarted_mid_epoch:
                # a DataLoader draws as an epoch's iteration begins, and Lightning began this one before the state was restored
                iter(trainer.fit_loop._data_fetcher)  # type: ignore[arg-type]
        else:
            if self._saved is not None:
                rank_zero_warn(
                    f"The checkpoint holds the random state of {len(self._saved)} ranks, this run has {trainer.world_size}: "
                    "dropout and the like begin anew."
                )
            self._seed(trainer.global_rank)
        self._saved = None

    def _seed(self, rank: int) -> None:
        seed = (self.seed + _STRIDE * rank) % 2**32
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
