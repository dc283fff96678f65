"""The layer-wise trust ratio of LARS, as a pure function of two norms."""

import torch
from torch import Tensor


def trust_ratio(
    weight_norm: Tensor,
    gradient_norm: Tensor,
    *,
    trust_coefficient: float,
    weight_decay: float,
    eps: float,
) -> Tensor:
    r"""How far a layer may move, relative to the size of its weights.

    .. math:: r = \frac{\eta \, |w|}{|g| + \lambda |w| + \epsilon}

    with trust coefficient :math:`\eta`, weight decay :math:`\lambda`. The ratio is 1 where either norm is 0: a layer that starts at
    zero moves with the plain learning rate instead of never. Nothing is read on the host.

    Args:
        weight_norm: Euclidean norms of the weights, any shape, FP32 or FP64.
        gradient_norm: Euclidean norms of the averaged, unscaled, undecayed gradients, the same shape.

    Reference:
        You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks, arXiv 1708.03888.
    """
    denominator = torch.add(gradient_norm, weight_norm, alpha=weight_decay)
    if eps:
        denominator = denominator + eps
    ratio = trust_coefficient * weight_norm / denominator
    return ratio.masked_fill_(torch.minimum(weight_norm, gradient_norm) <= 0, 1.0)
