"""The DDP communication hook: what happens to a full bucket of gradients.

::

    backward fills bucket k      DDP calls the hook           backward goes on with bucket k+1
    rank 0  [ g g g g ] --.                                .--> [ mean ]
    rank 1  [ g g g g ] --+--> / N, one sum over all ranks +--> [ mean ]
    rank 2  [ g g g g ] --'                                '--> [ mean ]

A bucket ("tensor fusion") joins the gradients of many layers, so that one transfer pays one latency for all of them.
"""

from dataclasses import dataclass
from typing import cast

import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.profiler import record_function


@dataclass
class AllReduceState:
    """What :func:`all_reduce_hook` needs to know; the ``state`` of ``model.register_comm_hook(state, all_reduce_hook)``.

    Args:
        process_group: the ranks to average over; None: all of them.
    """

    process_group: dist.ProcessGroup | None = None


def all_reduce_hook(state: AllReduceState, bucket: dist.GradBucket) -> Future[Tensor]:
    """Averages a bucket over the ranks with one all-reduce, as DDP does without a hook, bit for bit.

    DDP multiplies by the FP32 value of 1/N before it sums; dividing by N instead (as torch's own ``allreduce_hook`` does) differs in
    the last bit where N is not a power of two.

    Returns:
        A future of the bucket's buffer, which holds the mean.
    """
    group = state.process_group or dist.group.WORLD
    buffer = bucket.buffer()
    buffer.mul_(1.0 / dist.get_world_size(group))
    with record_function("fastnet::all_reduce"):
        work = dist.all_reduce(buffer, group=group, async_op=True)
    # a work's future holds a list of tensors, DDP wants the tensor
    return cast("Future[Tensor]", work.get_future().then(_first_tensor))


def _first_tensor(future: Future[list[Tensor]]) -> Tensor:
    return future.value()[0]
