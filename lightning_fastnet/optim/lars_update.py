"""One LARS update in two forms that compute the same: batched for accelerators, and torch's fused kernel, layer by layer, for CPUs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_fastnet.optim.trust_ratio import trust_ratio

_ROW = 2**12  # elements whose squares are summed at once
_LEAST_EXACT = 2.0**-28  # 1 - (1 - r) in double precision gives back every FP32 number r from here on


class Settings(NamedTuple):
    """A group's; see :class:`~lightning_fastnet.optim.lars.LARS`."""

    lr: float
    momentum: float
    weight_decay: float
    trust_coefficient: float
    eps: float
    nesterov: bool
    clip: bool


def batched_update(
    weights: list[Tensor], gradients: list[Tensor], buffers: list[Tensor] | None, settings: Settings, ratios: Tensor | None
) -> list[Tensor] | None:
    """All tensors together, in a number of operations that does not depend on how many there are; none reads a value on the host.

    Args:
        weights, gradients: of one dtype, on one device; the weights are changed.
        buffers: the momentum of each, changed; None: they have none yet.
        ratios: one a tensor (:func:`batched_ratios`); None: ``torch.optim.SGD``'s step, bit for bit, without weight decay.

    Returns:
        The momentum buffers; None without momentum.
    """
    updates: Any = gradients
    if ratios is not None:
        if settings.weight_decay != 0:
            updates = torch._foreach_add(gradients, weights, alpha=settings.weight_decay)
            torch._foreach_mul_(updates, ratios.unbind())
        else:
            updates = torch._foreach_mul(gradients, ratios.unbind())
    if settings.momentum != 0:
        if buffers is None:
            buffers = list(torch._foreach_mul(updates, 1.0))  # a copy, bit for bit
        else:
            torch._foreach_mul_(buffers, settings.momentum)
            torch._foreach_add_(buffers, updates)
        updates = torch._foreach_add(updates, buffers, alpha=settings.momentum) if settings.nesterov else buffers
    torch._foreach_add_(weights, updates, alpha=-settings.lr)
    return buffers


def fused_update(weight: Tensor, gradient: Tensor, buffer: Tensor | None, settings: Settings) -> Tensor | None:
    """One adapted tensor in two passes over memory: its norms, and ``torch._fused_sgd_`` with ``1 - ratio`` as dampening.

    The ratio is read on the host, which costs nothing where the tensors lie there. What the kernel cannot do takes
    :func:`batched_update`: Nesterov, no momentum, another dtype than FP32, a gradient in another order of memory.

    Args:
        weight: changed.
        buffer: its momentum, changed; None: it has none yet.

    Returns:
        The momentum buffer; None without momentum.
    """
    ratios = _rates([blocked_norm(weight)], [blocked_norm(gradient)], settings)
    ratio = float(ratios)
    tensors = [weight, gradient] if buffer is None else [weight, gradient, buffer]
    possible = settings.momentum != 0 and not settings.nesterov and not ratio < _LEAST_EXACT
    if not possible or not all(tensor.dtype is torch.float32 for tensor in tensors) or not _in_one_order(tensors):
        after = batched_update([weight], [gradient], None if buffer is None else [buffer], settings, ratios)
        return None if after is None else after[0]
    if buffer is None:
        buffer = torch.zeros_like(weight)
    torch._fused_sgd_(
        [weight],
        [gradient],
        [buffer],
        weight_decay=settings.weight_decay,
        momentum=settings.momentum,
        lr=settings.lr,
        dampening=1.0 - ratio,
        nesterov=False,
        maximize=False,
        is_first_step=False,  # which would leave out the dampening; before the first step the momentum is 0
    )
    return buffer


def batched_ratios(weights: list[Tensor], gradients: list[Tensor], settings: Settings) -> Tensor:
    """The factor of each tensor's update, on its device: trust ratios, or with ``clip`` the used part of the learning rate."""
    norms = torch._foreach_norm([*weights, *gradients], 2, dtype=norm_dtype(weights[0]))
    return _rates(norms[: len(weights)], norms[len(weights) :], settings)


def _rates(weight_norms: Sequence[Tensor], gradient_norms: Sequence[Tensor], settings: Settings) -> Tensor:
    of_weights, of_gradients = torch.stack([*weight_norms, *gradient_norms]).split(len(weight_norms))
    ratios = trust_ratio(
        of_weights,
        of_gradients,
        trust_coefficient=settings.trust_coefficient,
        weight_decay=settings.weight_decay,
        eps=settings.eps,
    )
    if settings.clip:  # min(ratio, lr) is the whole rate
        return torch.clamp(ratios / settings.lr, max=1.0) if settings.lr > 0 else torch.ones_like(ratios)
    return ratios


def blocked_norm(tensor: Tensor) -> Tensor:
    """The Euclidean norm of the norms of blocks: on a CPU, torch's own sum over 37 million elements is wrong in the third digit."""
    dtype = norm_dtype(tensor)
    flat = tensor.as_strided((tensor.numel(),), (1,)) if _is_dense(tensor) else tensor.contiguous().view(-1)
    whole = flat.numel() // _ROW * _ROW
    norms = [] if whole == 0 else [torch.linalg.vector_norm(flat[:whole].view(-1, _ROW), dim=1, dtype=dtype)]
    if whole < flat.numel() or not norms:
        norms.append(torch.linalg.vector_norm(flat[whole:], dtype=dtype).view(1))
    norm: Tensor = norms[0][0] if whole == 0 else torch.linalg.vector_norm(torch.cat(norms))
    return norm


def norm_dtype(tensor: Tensor) -> torch.dtype:
    """FP32 at least: the square of 256 is infinite in FP16, and that of 1e-4 is 0."""
    return tensor.dtype if tensor.dtype.itemsize >= torch.float32.itemsize else torch.float32


def _in_one_order(tensors: Sequence[Tensor]) -> bool:
    if all(tensor.is_contiguous() for tensor in tensors):
        return True
    return _is_dense(tensors[0]) and all(_strides(tensor) == _strides(tensors[0]) for tensor in tensors)


def _is_dense(tensor: Tensor) -> bool:
    return tensor.is_contiguous() or (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def _strides(tensor: Tensor) -> list[int]:
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
