"""A bidirectional GRU layer with its backward pass written out, for training on a CPU.

Comes in: x_BTD and the parameters of an ordinary `nn.GRU(D, H, bidirectional=True)`. Goes out:
what that module returns for the same input, to rounding, and the same gradients.

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

_PARAMETERS = tuple(
    f"{kind}_l0{direction}"
    for direction in ("", "_reverse")
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
)


class BidirectionalGRU(nn.GRU):
    """`nn.GRU(batch_first=True, bidirectional=True)`, same parameters, faster to train on CPUs."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, batch_first=True, bidirectional=True)
        self._buffers_in_reach = _Workspace()

    def forward(self, x_BTD: Tensor, hx: None = None) -> tuple[Tensor, None]:  # type: ignore[override]
        # Other devices bring fused kernels of their own; without gradients there is no gain.
        if x_BTD.device.type != "cpu" or not torch.is_grad_enabled() or x_BTD.requires_grad:
            return super().forward(x_BTD)[0], None
        weights = [getattr(self, name) for name in _PARAMETERS]
        return _WrittenOutGRU.apply(self._buffers_in_reach, x_BTD, *weights), None


class _Workspace:
    """Large buffers kept between calls: a fresh 100 MB costs more in page faults than its product.

    One forward pass owns them until its backward pass; a second forward in between gets new ones.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, tuple[int, ...]], Tensor] = {}
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
        found = self._buffers.get((name, shape))
        if found is None or found.dtype != like.dtype:
            self._buffers = {key: b for key, b in self._buffers.items() if key[0] != name}
            found = self._buffers[name, shape] = like.new_empty(shape)
        return found


class _WrittenOutGRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, workspace: _Workspace, x_BTD: Tensor, *weights: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        H = weights[1].shape[1]
        space = workspace.take()
        x_TBD = space.buffer(x_BTD, "x", T, B, D).copy_(x_BTD.transpose(0, 1))
        gates_2TB3H = space.buffer(x_BTD, "gates", 2, T, B, 3 * H)
        recurrent_n_2TBH = space.buffer(x_BTD, "recurrent n", 2, T, B, H)
        # One state more than steps: forwards the zero state comes first, backwards it comes last.
        states_2SBH = space.buffer(x_BTD, "states", 2, T + 1, B, H)
        recurrent_B3H = space.buffer(x_BTD, "recurrent", B, 3 * H)

        for d in (0, 1):
            w_ih, w_hh, b_ih, b_hh = weights[4 * d : 4 * d + 4]
            # b_hh of r and z joins the input's product; that of n cannot, r multiplies it.
            bias_3H = torch.cat((b_ih[: 2 * H] + b_hh[: 2 * H], b_ih[2 * H :]))
            gates = gates_2TB3H[d]
            torch.addmm(bias_3H, x_TBD.view(T * B, D), w_ih.t(), out=gates.view(T * B, 3 * H))
            states, b_hn_H, w_hh_t = states_2SBH[d], b_hh[2 * H :], w_hh.t()
            states[T if d else 0].zero_()
            for t in reversed(range(T)) if d else range(T):
                h_BH, next_BH = (states[t + 1], states[t]) if d else (states[t], states[t + 1])
                torch.mm(h_BH, w_hh_t, out=recurrent_B3H)
                rz_B2H, n_BH = gates[t, :, : 2 * H], gates[t, :, 2 * H :]
                rz_B2H.add_(recurrent_B3H[:, : 2 * H]).sigmoid_()
                n_h_BH = torch.add(recurrent_B3H[:, 2 * H :], b_hn_H, out=recurrent_n_2TBH[d, t])
                n_BH.addcmul_(rz_B2H[:, :H], n_h_BH).tanh_()
                torch.lerp(n_BH, h_BH, rz_B2H[:, H:], out=next_BH)

        ctx.save_for_backward(*weights)
        ctx.space = space
        ctx.kept = (x_TBD, gates_2TB3H, recurrent_n_2TBH, states_2SBH)
        out_TB2H = torch.cat((states_2SBH[0, 1:], states_2SBH[1, :-1]), dim=-1)
        return out_TB2H.transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        weights = ctx.saved_tensors
        x_TBD, gates_2TB3H, recurrent_n_2TBH, states_2SBH = ctx.kept
        T, B, D = x_TBD.shape
        H = states_2SBH.shape[-1]
        grad_TB2H = grad_outputs[0].transpose(0, 1)
        buffer = ctx.space.buffer
        # Columns in the order n·input, r, z, n·recurrent: the first three are the gradient of the
        # input's product, the last three that of the recurrent one, both without a copy.
        d_gates_TB4H = buffer(x_TBD, "d gates", T, B, 4 * H)
        to_n, to_z, to_r, scratch = (
            buffer(x_TBD, name, T, B, H) for name in ("to n", "to z", "to r", "scratch")
        )
        grads: list[Tensor | None] = [None, None]
        for d in (0, 1):
            w_hh = weights[4 * d + 1]
            r, z, n = gates_2TB3H[d].split(H, dim=-1)
            before = states_2SBH[d, 1:] if d else states_2SBH[d, :-1]
            # The factors between a state's gradient and its gates', for all steps at once:
            # n: (1-z)(1-n²); z: (h-n) z (1-z); r, from n's: (recurrent n) r (1-r).
            torch.mul(n, n, out=scratch).neg_().add_(1)
            torch.sub(1, z, out=to_n).mul_(scratch)
            torch.sub(1, z, out=scratch)
            torch.sub(before, n, out=to_z).mul_(z).mul_(scratch)
            torch.sub(1, r, out=scratch)
            torch.mul(recurrent_n_2TBH[d], r, out=to_r).mul_(scratch)

            d_h_BH = x_TBD.new_zeros(B, H)
            for t in range(T) if d else reversed(range(T)):
                d_h_BH.add_(grad_TB2H[t, :, d * H : (d + 1) * H])
                d_n, d_r, d_z, d_n_h = d_gates_TB4H[t].split(H, dim=-1)
                torch.mul(d_h_BH, to_n[t], out=d_n)
                torch.mul(d_h_BH, to_z[t], out=d_z)
                torch.mul(d_n, to_r[t], out=d_r)
                torch.mul(d_n, r[t], out=d_n_h)
                d_h_BH.mul_(z[t]).addmm_(d_gates_TB4H[t, :, H:], w_hh)

            d_gates_R4H = d_gates_TB4H.view(T * B, 4 * H)
            d_w_ih = d_gates_R4H[:, : 3 * H].t() @ x_TBD.view(T * B, D)
            d_w_hh = d_gates_R4H[:, H:].t() @ before.reshape(T * B, H)
            d_bias_4H = d_gates_R4H.sum(0)
            grads += [
                torch.cat((d_w_ih[H:], d_w_ih[:H])),  # back to the order r, z, n
                d_w_hh,
                torch.cat((d_bias_4H[H : 3 * H], d_bias_4H[:H])),
                d_bias_4H[H:].clone(),
            ]
        ctx.kept = None
        ctx.space.is_taken = False
        return tuple(grads)
