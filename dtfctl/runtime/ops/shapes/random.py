"""Static shapes of random ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape


def _from_input(position: int) -> Any:
    def shape(op: Operation) -> list[Any]:
        return [constant_value_as_shape(op.inputs[position])]

    return shape


register_shape(
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    "RandomUniformInt",
    "ParameterizedTruncatedNormal",
    "StatelessRandomUniform",
    "StatelessRandomNormal",
    "StatelessTruncatedNormal",
    "StatelessRandomUniformInt",
    "StatelessRandomUniformFullInt",
    "StatelessRandomUniformV2",
    "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
    "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullIntV2",
    "StatelessRandomGammaV2",
    "StatelessRandomGammaV3",
    "StatelessRandomPoisson",
    "StatelessRandomBinomial",
    "StatelessParameterizedTruncatedNormal",
    "NonDeterministicInts",
)(_from_input(0))
register_shape("StatefulStandardNormal")(_from_input(1))
register_shape(
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulUniformInt",
    "StatefulRandomBinomial",
)(_from_input(2))


@register_shape("Multinomial", "StatelessMultinomial")
def _multinomial(op: Operation) -> list[Any]:
    logits = op.inputs[0].shape.with_rank(2)
    samples = computed_value(op.inputs[1])
    return [(logits[0].value, None if samples is None else int(samples))]


@register_shape("RandomGammaGrad")
def _broadcast(op: Operation) -> list[Any]:
    from dtfctl.runtime.framework.tensor_shape import broadcast_static

    return [broadcast_static(op.inputs[0].shape, op.inputs[1].shape)]


@register_shape(
    "LogUniformCandidateSampler",
    "UniformCandidateSampler",
    "LearnedUnigramCandidateSampler",
    "ThreadUnsafeUnigramCandidateSampler",
    "FixedUnigramCandidateSampler",
    "AllCandidateSampler",
)
def _candidates(op: Operation) -> list[Any]:
    sampled = op.attr("num_sampled")
    batch = op.inputs[0].shape.with_rank(2)[0].value
    return [(sampled,), (batch, op.attr("num_true")), (sampled,)]
