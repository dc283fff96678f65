"""LARS: SGD with momentum whose step is scaled, layer by layer, by a trust ratio."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.param_groups import is_excluded
from lightning_fastnet.optim.trust_ratio import trust_ratio


class LARS(Optimizer):
    r"""Layer-wise Adaptive Rate Scaling.

    Acts in ``step()``, on the gradients as they are then: averaged over ranks and unscaled. For each parameter

    .. math::
        r &= \frac{\eta |w|}{|g| + \lambda |w| + \epsilon} \quad (1 \text{ where a norm is } 0) \\
        v &\leftarrow \mu v + r (g + \lambda w) \\
        w &\leftarrow w - \gamma v

    with learning rate :math:`\gamma`, momentum :math:`\mu`, weight decay :math:`\lambda`, trust coefficient :math:`\eta`. The learning
    rate stands outside the momentum buffer, as in ``torch.optim.SGD``: a new rate acts on the whole step at once. (TensorFlow's MLPerf
    reference and Intel Caffe keep it inside; the two differ while the rate changes.) With ratio 1 this is ``torch.optim.SGD``, bit for bit.

    Excluded parameters (biases and norm layers unless told otherwise) take that plain step, without weight decay. A parameter
    without a name is excluded when it has at most one dimension. Norms are computed in FP32 at least: squares past
    65,504 do not overflow.

    Args:
        params: parameters, named parameters (``module.named_parameters()``) or groups of either. A group may set
            ``excluded: bool`` for all that it holds. :func:`~lightning_fastnet.optim.param_groups.param_groups` makes groups
            that know norm layers by their type.
        lr: learning rate.
        momentum: :math:`\mu`, 0 for none.
        weight_decay: :math:`\lambda`; also a part of the ratio.
        trust_coefficient: :math:`\eta`.
        eps: added to the ratio's denominator.
        nesterov: look ahead by one momentum step, as in ``torch.optim.SGD``.
        clip: use ``min(ratio, lr)`` as the layer's whole rate (LARC) instead of ``lr * ratio``.
        exclude: parts of a parameter's name that exclude it, and ``"bias"``, ``"norm"``: see
            :func:`~lightning_fastnet.optim.param_groups.is_excluded`.

    Raises:
        UserError: a setting out of range.

    Example:
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = LARS(model.named_parameters(), lr=0.1, weight_decay=1e-4)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()

    Reference:
        You, Gitman, Ginsburg, arXiv 1708.03888. Variants: the denominator with or without the decay term, the learning rate
        inside or outside the momentum buffer, biases and norms adapted or not. This is the form of NVIDIA's MLPerf submissions.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 1e-3,
        eps: float = 0.0,
        nesterov: bool = False,
        clip: bool = False,
        exclude: Iterable[str] = ("bias", "norm"),
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay), ("trust_coefficient", trust_coefficient), ("eps", eps)):
            if not value >= 0:
                raise UserError(f"LARS: {name}={value} must not be negative.")
        if not 0 <= momentum < 1:
            raise UserError(f"LARS: momentum={momentum} must be at least 0 and less than 1.")
        if nesterov and momentum == 0:
            raise UserError("LARS: nesterov=True needs a momentum above 0.")
        defaults = {
            "exclude": (exclude,) if isinstance(exclude, str) else tuple(exclude),
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
            "eps": eps,
            "nesterov": nesterov,
            "clip": clip,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; its ``excluded`` becomes one flag a parameter, kept in the state dict."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        flags, count = group.get("excluded"), len(group["params"])
        if flags is None:
            names = group.get("param_names") or [None] * count
            pairs = zip(names, group["params"], strict=True)
            flags = [is_excluded(name, parameter, group["exclude"]) for name, parameter in pairs]
        group["excluded"] = [flags] * count if isinstance(flags, bool) else list(flags)
        if len(group["excluded"]) != count:
            raise UserError(f"LARS: a group of {count} parameters has {len(group['excluded'])} excluded flags: give one each, or one bool.")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update. The gradients are read, never changed.

        Args:
            closure: recomputes the loss and the gradients; its value is returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter, excluded in zip(group["params"], group["excluded"], strict=True):
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, excluded, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, excluded: bool, group: dict[str, Any]) -> None:
        lr = group["lr"]
        if not excluded:
            decay = group["weight_decay"]
            ratio = trust_ratio(
                _norm(parameter),
                _norm(gradient),
                trust_coefficient=group["trust_coefficient"],
                weight_decay=decay,
                eps=group["eps"],
            )
            if group["clip"]:
                ratio = torch.clamp(ratio / lr, max=1.0) if lr > 0 else torch.ones_like(ratio)
            if decay != 0:
                gradient = gradient.add(parameter, alpha=decay)
            gradient = gradient * ratio.to(gradient.dtype)
        if group["momentum"] != 0:
            gradient = self._with_momentum(parameter, gradient, group["momentum"], group["nesterov"])
        parameter.add_(gradient, alpha=-lr)

    def _with_momentum(self, parameter: Tensor, update: Tensor, momentum: float, nesterov: bool) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = update.clone()
        else:
            state["momentum_buffer"].mul_(momentum).add_(update)
        buffer = cast(Tensor, state["momentum_buffer"])
        return update.add(buffer, alpha=momentum) if nesterov else buffer


def _norm(tensor: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32))
    return norm
