"""FusedAllReduceStrategy: DDP under Lightning with this project's all-reduce of the gradient buckets."""

import sys
from typing import Any

from lightning.pytorch.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel
from typing_extensions import override

from lightning_fastnet.comm.hook import AllReduceState, all_reduce_hook
from lightning_fastnet.errors import UserError


class FusedAllReduceStrategy(DDPStrategy):
    """Data-parallel training in which every bucket of gradients goes through :func:`~lightning_fastnet.comm.hook.all_reduce_hook`.

    DDP's own reducer fills the buckets and overlaps them with backward; the result is DDP's, bit for bit. Works on any device and
    backend (Lightning by itself registers communication hooks on CUDA only).

    Args:
        bucket_cap_mb: size at which a bucket is sent, in MiB; None: torch's default of 25.
        **ddp: what :class:`lightning.pytorch.strategies.DDPStrategy` and ``DistributedDataParallel`` take.

    Raises:
        UserError: a ``ddp_comm_*`` argument: this strategy brings its own hook.

    Example:
        >>> strategy = FusedAllReduceStrategy(bucket_cap_mb=10, gradient_as_bucket_view=True)
    """

    def __init__(self, bucket_cap_mb: float | None = None, **ddp: Any) -> None:
        for name in ("ddp_comm_hook", "ddp_comm_state", "ddp_comm_wrapper"):
            if ddp.get(name) is not None:
                raise UserError(
                    f"FusedAllReduceStrategy brings its own communication hook: leave out {name}, or use Lightning's DDPStrategy."
                )
        if bucket_cap_mb is not None:
            if not bucket_cap_mb > 0:
                raise UserError(f"bucket_cap_mb={bucket_cap_mb} must be above 0 (MiB), or None for torch's default.")
            ddp["bucket_cap_mb"] = bucket_cap_mb
        super().__init__(**ddp)

    @override
    def _register_ddp_hooks(self) -> None:
        # Lightning's own version drops the hook silently unless the device is CUDA
        assert isinstance(self.model, DistributedDataParallel)
        self.model.register_comm_hook(AllReduceState(), all_reduce_hook)

    @classmethod
    @override
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Nothing: a short name would need an import that linters delete. Pass an instance."""

    @override
    def __repr__(self) -> str:
        # a Trainer of the twin package shows this repr in its "invalid strategy" error; that is the one place to tell the reader why
        hint = ""
        if "pytorch_lightning" in sys.modules:
            hint = "; it is a lightning.pytorch class and does not work with `import pytorch_lightning`: import lightning.pytorch instead"
        return f"<{type(self).__name__}{hint}>"
