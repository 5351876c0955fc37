"""A bidirectional GRU layer with its backward pass written out, for training on a CPU.

Comes in: x_BTD and the parameters of an ordinary `nn.GRU(D, H, bidirectional=True)`. Goes out: the
final state of both directions, what that module returns as h_n, to rounding, and the same
gradients.

Why not simply call the module: autograd walks its T steps one by one, allocates at each, and each
adds a (3H, H) weight gradient from a product only B deep. Here the walk back computes the gates'
gradients alone, in buffers that are used again at the next call, and the weight gradients are one
product of depth T·B at the end.

Shapes: B rows, T steps, D input width, H hidden width; gates r (reset), z (update), n (new).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class BidirectionalGRU(nn.GRU):
    """`nn.GRU(batch_first=True, bidirectional=True)`, same parameters, faster to train on CPUs."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, batch_first=True, bidirectional=True)
        self._workspaces = (_Workspace(), _Workspace())

    def final_states(self, x_BTD: Tensor) -> Tensor:
        """(B, 2H): the state after the last step forwards, and after the first one backwards."""
        # Other devices bring fused kernels of their own; without gradients there is no gain.
        if x_BTD.device.type != "cpu" or not torch.is_grad_enabled() or x_BTD.requires_grad:
            return torch.cat(tuple(self(x_BTD)[1]), dim=-1)
        x_TBD = x_BTD.transpose(0, 1).contiguous()
        ends_BH = []
        for suffix, workspace in zip(("", "_reverse"), self._workspaces, strict=True):
            weights = [getattr(self, f"{kind}_l0{suffix}") for kind in _PARAMETERS]
            ends_BH.append(_OneDirection.apply(workspace, bool(suffix), x_TBD, *weights))
        return torch.cat(ends_BH, dim=-1)


_PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class _Workspace:
    """Large buffers kept between calls: a fresh 100 MB costs more in page faults than its product.

    One forward pass owns them until its backward pass; a second forward in between gets new ones.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}
        self.is_taken = False

    def __deepcopy__(self, memo: object) -> _Workspace:
        return _Workspace()

    def __reduce__(self) -> tuple[type[_Workspace], tuple[()]]:
        return _Workspace, ()

    def take(self) -> _Workspace:
        if self.is_taken:
            return _Workspace()
        self.is_taken = True
        return self

    def buffer(self, like: Tensor, name: str, *shape: int) -> Tensor:
        found = self._buffers.get(name)
        if found is None or found.shape != shape or found.dtype != like.dtype:
            found = self._buffers[name] = like.new_empty(shape)
        return found


class _OneDirection(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        workspace: _Workspace,
        is_reversed: bool,
        x_TBD: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
    ) -> Tensor:
        T, B, D = x_TBD.shape
        H = w_hh.shape[1]
        space = workspace.take()
        gates_TB3H = space.buffer(x_TBD, "gates", T, B, 3 * H)
        recurrent_n_TBH = space.buffer(x_TBD, "recurrent n", T, B, H)
        states_SBH = space.buffer(x_TBD, "states", T + 1, B, H)  # in walking order, zeros first
        recurrent_B3H = space.buffer(x_TBD, "recurrent", B, 3 * H)

        # b_hh of r and z joins the input's product; that of n cannot, r multiplies it.
        bias_3H = torch.cat((b_ih[: 2 * H] + b_hh[: 2 * H], b_ih[2 * H :]))
        torch.addmm(bias_3H, x_TBD.view(T * B, D), w_ih.t(), out=gates_TB3H.view(T * B, 3 * H))
        states_SBH[0].zero_()
        for s, t in enumerate(_walk(T, is_reversed)):
            torch.mm(states_SBH[s], w_hh.t(), out=recurrent_B3H)
            rz_B2H, n_BH = gates_TB3H[t, :, : 2 * H], gates_TB3H[t, :, 2 * H :]
            rz_B2H.add_(recurrent_B3H[:, : 2 * H]).sigmoid_()
            n_h_BH = torch.add(recurrent_B3H[:, 2 * H :], b_hh[2 * H :], out=recurrent_n_TBH[t])
            n_BH.addcmul_(rz_B2H[:, :H], n_h_BH).tanh_()
            torch.lerp(n_BH, states_SBH[s], rz_B2H[:, H:], out=states_SBH[s + 1])

        ctx.kept = (space, is_reversed, x_TBD, w_hh, gates_TB3H, recurrent_n_TBH, states_SBH)
        return states_SBH[T].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | bool | None, ...]:
        space, is_reversed, x_TBD, w_hh, gates_TB3H, recurrent_n_TBH, states_SBH = ctx.kept
        T, B, D = x_TBD.shape
        H = w_hh.shape[1]
        # Columns in the order n·input, r, z, n·recurrent: the first three are the gradient of the
        # input's product, the last three that of the recurrent one, both without a copy.
        d_gates_TB4H = space.buffer(x_TBD, "d gates", T, B, 4 * H)
        d_h_BH = grad_outputs[0].clone()
        scratch_BH = torch.empty_like(d_h_BH)
        for s, t in reversed(list(enumerate(_walk(T, is_reversed)))):
            r, z, n = gates_TB3H[t].split(H, dim=-1)
            d_n, d_r, d_z, d_n_h = d_gates_TB4H[t].split(H, dim=-1)
            # n: d_h (1-z)(1-n²); r: d_n (recurrent n) r (1-r); z: d_h (h-n) z (1-z)
            torch.addcmul(d_h_BH, d_h_BH, z, value=-1, out=d_n)
            torch.mul(d_n, n, out=scratch_BH)
            d_n.addcmul_(scratch_BH, n, value=-1)
            torch.mul(d_n, r, out=d_n_h)
            torch.addcmul(d_n_h, d_n_h, r, value=-1, out=d_r).mul_(recurrent_n_TBH[t])
            torch.sub(states_SBH[s], n, out=scratch_BH).mul_(d_h_BH).mul_(z)
            torch.addcmul(scratch_BH, scratch_BH, z, value=-1, out=d_z)
            d_h_BH.mul_(z).addmm_(d_gates_TB4H[t, :, H:], w_hh)

        d_gates_R4H = d_gates_TB4H.view(T * B, 4 * H)
        before_TBH = states_SBH[:T].flip(0) if is_reversed else states_SBH[:T]
        d_w_ih = d_gates_R4H[:, : 3 * H].t() @ x_TBD.view(T * B, D)
        d_w_hh = d_gates_R4H[:, H:].t() @ before_TBH.reshape(T * B, H)
        d_bias_4H = d_gates_R4H.sum(0)
        ctx.kept = None
        space.is_taken = False
        return (
            *(None, None, None),
            torch.cat((d_w_ih[H:], d_w_ih[:H])),  # back to the order r, z, n
            d_w_hh,
            torch.cat((d_bias_4H[H : 3 * H], d_bias_4H[:H])),
            d_bias_4H[H:].clone(),
        )


def _walk(T: int, is_reversed: bool) -> range:
    return range(T - 1, -1, -1) if is_reversed else range(T)
