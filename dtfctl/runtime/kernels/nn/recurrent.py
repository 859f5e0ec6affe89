"""Recurrent cells as one op each: LSTMBlockCell, BlockLSTM and GRUBlockCell with gradients (lstm_ops, gru_ops)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.into.products import multiply_stacks
from dtfctl.runtime.kernels.nn.common import low_in_float32, shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_HALF_FLOAT = (dtypes.float16, dtypes.float32)
# Where the input, new-value, forget and output gates stand among the four columns of a product.
_ICFO = (0, 1, 2, 3)
_IFCO = (0, 2, 1, 3)


def _sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class _Cell:
    """One LSTM cell's settings and weights; clip 0 or less means none."""

    w: Any
    b: Any
    peepholes: tuple[Any, Any, Any] | None
    forget_bias: float
    clip: float
    layout: tuple[int, int, int, int]

    def gates(self, product: Any) -> tuple[Any, Any, Any, Any]:
        size = product.shape[1] // 4
        i, c, f, o = (product[:, p * size : (p + 1) * size] for p in self.layout)
        return i, c, f, o

    def join(self, i: Any, c: Any, f: Any, o: Any) -> Any:
        columns = [None] * 4
        for place, part in zip(self.layout, (i, c, f, o)):
            columns[place] = part
        return np.concatenate(columns, axis=1)  # type: ignore[arg-type]

    def forward(self, x: Any, cs_prev: Any, h_prev: Any) -> tuple[Any, ...]:
        """i, cs, f, o, ci, co, h."""
        product = multiply_stacks(np.concatenate([x, h_prev], axis=1), self.w) + self.b
        i, c, f, o = self.gates(product)
        f = f + x.dtype.type(self.forget_bias)
        if self.peepholes is not None:
            i, f = i + cs_prev * self.peepholes[0], f + cs_prev * self.peepholes[1]
        i, ci, f = _sigmoid(i), np.tanh(c), _sigmoid(f)
        cs = ci * i + f * cs_prev
        if self.clip > 0:
            cs = np.clip(cs, x.dtype.type(-self.clip), x.dtype.type(self.clip))
        if self.peepholes is not None:
            o = o + cs * self.peepholes[2]
        o, co = _sigmoid(o), np.tanh(cs)
        return i, cs, f, o, ci, co, o * co

    def backward(self, saved: tuple[Any, ...], cs_prev: Any, cs_grad: Any, h_grad: Any) -> tuple[Any, Any, Any]:
        """Gradient by the previous state, by the four gates joined, and by the peepholes."""
        i, cs, f, o, ci, co, _ = saved
        d_o = o * (1 - o) * h_grad * co
        d_cs = (1 - co * co) * h_grad * o + cs_grad
        if self.peepholes is not None:
            d_cs = d_cs + d_o * self.peepholes[2]
        d_ci = (1 - ci * ci) * d_cs * i
        d_f = f * (1 - f) * d_cs * cs_prev
        d_i = i * (1 - i) * d_cs * ci
        cs_prev_grad = d_cs * f
        peephole_grads: tuple[Any, ...] = ()
        if self.peepholes is not None:
            cs_prev_grad = cs_prev_grad + d_i * self.peepholes[0] + d_f * self.peepholes[1]
            peephole_grads = ((d_i * cs_prev).sum(axis=0), (d_f * cs_prev).sum(axis=0), (d_o * cs).sum(axis=0))
        return cs_prev_grad, self.join(d_i, d_ci, d_f, d_o), peephole_grads


def _cell(k: KernelBuild, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, layout: Any = _ICFO) -> _Cell:
    peephole = k.attr("use_peephole", False)
    return _Cell(
        w,
        b,
        (wci, wcf, wco) if peephole else None,
        0.0 if layout is _IFCO else k.attr("forget_bias", 1.0),
        k.attr("cell_clip", 3.0),
        layout,
    )


def _check(x: Any, cs_prev: Any, h_prev: Any, w: Any, b: Any) -> None:
    if x.ndim != 2 or cs_prev.ndim != 2 or h_prev.ndim != 2:
        raise InvalidArgumentError("x, cs_prev and h_prev must be 2D")
    batch, inputs = x.shape
    cells = cs_prev.shape[1]
    if cs_prev.shape[0] != batch:
        raise InvalidArgumentError(f"cs_prev.dims(0) != batch_size: {cs_prev.shape[0]} vs. {batch}")
    if h_prev.shape != (batch, cells):
        raise InvalidArgumentError(f"h_prev must have shape [{batch},{cells}], got {shape_text(h_prev.shape)}")
    if w.shape != (inputs + cells, 4 * cells):
        raise InvalidArgumentError(f"w must have shape [{inputs + cells},{4 * cells}], got {shape_text(w.shape)}")
    if b.shape != (4 * cells,):
        raise InvalidArgumentError(f"b must have shape [{4 * cells}], got {shape_text(b.shape)}")


def _check_vectors(**weights: Any) -> None:
    for name, value in weights.items():
        if value.ndim != 1:
            raise InvalidArgumentError(f"{name}_tensor must be rank 1 but is rank {value.ndim}.")


@register_kernel("LSTMBlockCell", T=_HALF_FLOAT)
def lstm_block_cell(k: KernelBuild) -> Kernel:
    def function(x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any) -> tuple[Any, ...]:
        _check(x, cs_prev, h_prev, w, b)
        _check_vectors(wci=wci, wcf=wcf, wco=wco)
        if not cs_prev.size:
            raise InvalidArgumentError(f"cs_prev_tensor is empty, has shape: {shape_text(cs_prev.shape)}.")
        return _cell(k, w, wci, wcf, wco, b).forward(x, cs_prev, h_prev)

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("LSTMBlockCellGrad", T=_HALF_FLOAT)
def lstm_block_cell_grad(k: KernelBuild) -> Kernel:
    def function(x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *rest: Any) -> Any:
        _check(x, cs_prev, h_prev, w, b)
        saved, cs_grad, h_grad = (*rest[:6], None), rest[6], rest[7]
        cell = _cell(k, w, wci, wcf, wco, b)
        cs_prev_grad, gates, peepholes = cell.backward(saved, cs_prev, cs_grad, h_grad)
        return (cs_prev_grad, gates, *(peepholes or (np.zeros_like(wci), np.zeros_like(wcf), np.zeros_like(wco))))

    return low_in_float32(k.dtype("T").np, function)


def _steps(seq_len_max: Any, x: Any) -> int:
    if x.ndim != 3:
        raise InvalidArgumentError("x must be 3D")
    if seq_len_max.ndim:
        raise InvalidArgumentError(f"`seq_len_max_tensor` must be rank 0 but is rank {seq_len_max.ndim}")
    steps = int(seq_len_max)
    if steps > x.shape[0]:
        raise InvalidArgumentError(f"x.dims(0) must be >= seq_len_max: {x.shape[0]} vs. {steps}")
    return steps


@register_kernel(("BlockLSTM", "BlockLSTMV2"), T=_HALF_FLOAT)
def block_lstm(k: KernelBuild) -> Kernel:
    layout = _ICFO if k.node.op == "BlockLSTM" else _IFCO

    def function(
        seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any
    ) -> tuple[Any, ...]:
        steps = _steps(seq_len_max, x)
        if x.shape[0]:
            _check(x[0], cs_prev, h_prev, w, b)
        cell = _cell(k, w, wci, wcf, wco, b, layout)
        outputs = tuple(np.zeros((x.shape[0], x.shape[1], cs_prev.shape[1]), x.dtype) for _ in range(7))
        cs, h = cs_prev, h_prev
        for t in range(steps):
            results = cell.forward(x[t], cs, h)
            for whole, part in zip(outputs, results):
                whole[t] = part
            cs, h = results[1], results[6]
        return outputs

    return low_in_float32(k.dtype("T").np, function)


@register_kernel(("BlockLSTMGrad", "BlockLSTMGradV2"), T=_HALF_FLOAT)
def block_lstm_grad(k: KernelBuild) -> Kernel:
    layout = _ICFO if k.node.op == "BlockLSTMGrad" else _IFCO

    def function(
        seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *rest: Any
    ) -> tuple[Any, ...]:
        steps = _steps(seq_len_max, x)
        cell = _cell(k, w, wci, wcf, wco, b, layout)
        saved, cs_grads, h_grads = rest[:7], rest[7], rest[8]
        inputs = x.shape[2]
        x_grad, w_grad, b_grad = np.zeros_like(x), np.zeros_like(w), np.zeros_like(b)
        peepholes = [np.zeros_like(p) for p in (wci, wcf, wco)]
        cs_back, h_back = np.zeros_like(cs_prev), np.zeros_like(h_prev)
        for t in range(steps - 1, -1, -1):
            before_cs, before_h = (saved[1][t - 1], saved[6][t - 1]) if t else (cs_prev, h_prev)
            now = tuple(s[t] for s in saved)
            cs_back, gates, parts = cell.backward(now, before_cs, cs_grads[t] + cs_back, h_grads[t] + h_back)
            both = multiply_stacks(gates, w.T)
            x_grad[t], h_back = both[:, :inputs], both[:, inputs:]
            w_grad += multiply_stacks(np.concatenate([x[t], before_h], axis=1).T, gates)
            b_grad += gates.sum(axis=0)
            for whole, part in zip(peepholes, parts):
                whole += part
        return (x_grad, cs_back, h_back, w_grad, *peepholes, b_grad)

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("GRUBlockCell", T=(dtypes.float32,))
def gru_block_cell(k: KernelBuild) -> Kernel:
    def kernel(x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> tuple[Any, ...]:
        cells = h_prev.shape[1]
        both = _sigmoid(multiply_stacks(np.concatenate([x, h_prev], axis=1), w_ru) + b_ru)
        r, u = both[:, :cells], both[:, cells:]
        c = np.tanh(multiply_stacks(np.concatenate([x, h_prev * r], axis=1), w_c) + b_c)
        return r, u, c, u * h_prev + (1 - u) * c

    return kernel


@register_kernel("GRUBlockCellGrad", T=(dtypes.float32,))
def gru_block_cell_grad(k: KernelBuild) -> Kernel:
    def kernel(
        x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any, r: Any, u: Any, c: Any, d_h: Any
    ) -> tuple[Any, ...]:
        inputs = x.shape[1]
        d_c_bar = d_h * (1 - u) * (1 - c * c)
        d_u_bar = d_h * (h_prev - c) * u * (1 - u)
        through_c = multiply_stacks(d_c_bar, w_c.T)
        d_hr = through_c[:, inputs:]
        d_r_bar = d_hr * h_prev * r * (1 - r)
        d_ru = np.concatenate([d_r_bar, d_u_bar], axis=1)
        through_ru = multiply_stacks(d_ru, w_ru.T)
        d_x = through_ru[:, :inputs] + through_c[:, :inputs]
        return d_x, through_ru[:, inputs:] + d_hr * r + d_h * u, d_c_bar, d_ru

    return kernel
