"""LARS: SGD with momentum whose step is scaled, layer by layer, by a trust ratio."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.lars_update import Settings, batched_ratios, batched_update, fused_update
from lightning_fastnet.optim.param_groups import described, is_excluded

_logger = logging.getLogger(__name__)
_BUFFER = "momentum_buffer"  # as torch.optim.SGD calls it


class LARS(Optimizer):
    r"""Layer-wise Adaptive Rate Scaling.

    Acts in ``step()``, on the gradients as they are then: averaged over ranks and unscaled. For each parameter

    .. math::
        r &= \frac{\eta |w|}{|g| + \lambda |w| + \epsilon} \quad (1 \text{ where a norm is } 0) \\
        v &\leftarrow \mu v + r (g + \lambda w) \\
        w &\leftarrow w - \gamma v

    with learning rate :math:`\gamma`, momentum :math:`\mu`, weight decay :math:`\lambda`, trust coefficient :math:`\eta`. The learning
    rate stands outside the momentum buffer, as in ``torch.optim.SGD``: a new rate acts on the whole step at once. With
    ratio 1 this is ``torch.optim.SGD``, bit for bit (on a CPU: ``torch.optim.SGD(fused=True)``, whose last bit is another).

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
        foreach: all parameters together in a fixed number of operations, without a wait for the host (True), layer by layer through
            torch's fused kernel (False; Nesterov has none), or what is faster where the parameters are (None: False on a CPU, else True).

    Raises:
        UserError: a setting out of range.

    Example:
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = LARS(model.named_parameters(), lr=0.1, weight_decay=1e-4)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()

    Reference:
        You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks, arXiv 1708.03888. What is published under this name
        differs in four places. This is the form of NVIDIA's MLPerf submissions, the first choice in each (except that theirs decays
        the last layer's bias):

        - denominator: :math:`|g| + \lambda |w|` (also TensorFlow's MLPerf reference and Intel Caffe), or :math:`|g|` alone (nvcaffe).
        - learning rate: outside the momentum buffer (also ``torch.optim.SGD`` and apex' LARC), or inside it (TensorFlow's MLPerf
          reference, MXNet's LARS), which makes other steps whenever the rate changes.
        - biases and norm layers: the plain step with the whole learning rate and no decay, or as the others (Intel Caffe, nvcaffe).
        - a layer's rate: :math:`\gamma r` ("scale"), or :math:`\min(\gamma, r)` ("clip", LARC: ``clip=True``).
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
        foreach: bool | None = None,
    ) -> None:
        lr = float(lr)  # a tensor would be read on the host in each step
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
            "foreach": foreach,
        }
        super().__init__(params, defaults)
        _logger.info("LARS adapts %s", described(self.param_groups))

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

        Raises:
            UserError: a sparse gradient.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            settings = Settings(**{name: group[name] for name in Settings._fields})
            for (device, _, excluded, begun), parameters in self._alike(group).items():
                gradients = [cast(Tensor, parameter.grad) for parameter in parameters]
                buffers = [self.state[parameter][_BUFFER] for parameter in parameters] if begun else None
                foreach = group.get("foreach")
                if excluded or foreach or (foreach is None and device.type != "cpu"):
                    ratios = None if excluded else batched_ratios(parameters, gradients, settings)
                    after: Any = batched_update(parameters, gradients, buffers, settings, ratios)
                else:
                    each = zip(parameters, gradients, buffers or [None] * len(parameters), strict=True)
                    after = [fused_update(*tensors, settings) for tensors in each]
                if not begun and settings.momentum != 0:
                    for parameter, buffer in zip(parameters, after, strict=True):
                        self.state[parameter][_BUFFER] = buffer
        return loss

    def _alike(self, group: dict[str, Any]) -> dict[tuple[torch.device, torch.dtype, bool, bool], list[Tensor]]:
        """The parameters that have a gradient, by device, dtype, whether they are excluded, and whether they have a momentum."""
        alike: dict[tuple[torch.device, torch.dtype, bool, bool], list[Tensor]] = {}
        for parameter, excluded in zip(group["params"], group["excluded"], strict=True):
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                raise UserError("LARS: a gradient is sparse, which has no layer-wise norm here: build the embedding with sparse=False.")
            key = parameter.device, parameter.dtype, excluded, _BUFFER in self.state.get(parameter, {})
            alike.setdefault(key, []).append(parameter)
        return alike
