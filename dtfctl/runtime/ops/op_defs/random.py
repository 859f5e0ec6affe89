"""Entries of the random family."""

from __future__ import annotations

from dtfctl.runtime.framework.constant_value import constant_value_as_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import HALF_FIRST, INDEX, REALS

define = OpFamily("random")

define.op(
    "AllCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, true_expected_count: float, "
    "sampled_expected_count: float); num_true: int >= 1; num_sampled: int >= 1; unique: bool; seed: int = 0; "
    "seed2: int = 0; !stateful",
    gradient="none",
)
define.op(
    "ComputeAccidentalHits(true_classes: int64, sampled_candidates: int64) -> (indices: int32, ids: int64, "
    "weights: float); num_true: int; seed: int = 0; seed2: int = 0",
    shape=lambda op: [TensorShape([None])] * 3,
    gradient="none",
)
define.op(
    "FixedUnigramCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, "
    "true_expected_count: float, sampled_expected_count: float); num_true: int >= 1; num_sampled: int >= 1; "
    'unique: bool; range_max: int >= 1; vocab_file: string = ""; distortion: float = 1.0; '
    "num_reserved_ids: int = 0; num_shards: int >= 1 = 1; shard: int >= 0 = 0; unigrams: list(float) = []; "
    "seed: int = 0; seed2: int = 0; !stateful",
    gradient="none",
)
define.op(
    "LearnedUnigramCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, "
    "true_expected_count: float, sampled_expected_count: float); num_true: int >= 1; num_sampled: int >= 1; "
    "unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0; !stateful",
    gradient="none",
)
define.op(
    "LogUniformCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, "
    "true_expected_count: float, sampled_expected_count: float); num_true: int >= 1; num_sampled: int >= 1; "
    "unique: bool; range_max: int >= 1; seed: int = 0; seed2: int = 0; !stateful",
    gradient="none",
)
define.op(
    "Multinomial(logits: T, num_samples: int32) -> (output: output_dtype); seed: int = 0; seed2: int = 0; "
    f"T: {REALS}; output_dtype: {INDEX} = int64; !stateful",
    gradient="none",
)
define.op(
    "ParameterizedTruncatedNormal(shape: T, means: dtype, stdevs: dtype, minvals: dtype, "
    f"maxvals: dtype) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: {HALF_FIRST}; T: {INDEX}; "
    "!stateful",
    gradient="none",
)
define.op(
    f"RandomGamma(shape: S, alpha: T) -> (output: T); seed: int = 0; seed2: int = 0; S: {INDEX}; "
    "T: type in {half, float, double}; !stateful",
    shape=lambda op: [constant_value_as_shape(op.inputs[0]).concatenate(op.inputs[1].shape)],
)
define.op(
    "RandomIndexShuffle(index: dtype, seed: Tseed, max_index: dtype) -> (output: dtype); rounds: int = 4; "
    "dtype: type in {int32, uint32, int64, uint64}; Tseed: type in {int32, uint32, int64, uint64}",
    shape="unchanged",
)
define.op(
    f"RandomPoisson(shape: S, rate: dtype) -> (output: dtype); seed: int = 0; seed2: int = 0; S: {INDEX}; "
    "dtype: type in {half, float, double}; !stateful",
    shape=lambda op: [constant_value_as_shape(op.inputs[0]).concatenate(op.inputs[1].shape)],
    gradient="none",
)
define.op(
    f"RandomPoissonV2(shape: S, rate: R) -> (output: dtype); seed: int = 0; seed2: int = 0; S: {INDEX}; "
    "R: type in {half, float, double, int32, int64} = double; dtype: type in {half, float, double, int32, "
    "int64} = int64; !stateful",
    shape=lambda op: [constant_value_as_shape(op.inputs[0]).concatenate(op.inputs[1].shape)],
    gradient="none",
)
define.op(
    "RandomShuffle(value: T) -> (output: T); seed: int = 0; seed2: int = 0; T: type; !stateful",
    shape="unchanged",
    gradient="none",
)
define.op(
    f"RandomStandardNormal(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: {HALF_FIRST}; "
    f"T: {INDEX}; !stateful",
    gradient="none",
)
define.op(
    f"RandomUniform(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: {HALF_FIRST}; "
    f"T: {INDEX}; !stateful",
    gradient="none",
)
define.op(
    "RandomUniformInt(shape: T, minval: Tout, maxval: Tout) -> (output: Tout); seed: int = 0; seed2: int = 0; "
    f"Tout: {INDEX}; T: {INDEX}; !stateful",
    gradient="none",
)
define.op(
    "RngReadAndSkip(resource: resource, alg: int32, delta: uint64) -> (value: int64); !stateful",
    shape=[(3,)],
    gradient="none",
)
define.op(
    "StatefulRandomBinomial(resource: resource, algorithm: int64, shape: S, counts: T, "
    f"probs: T) -> (output: dtype); S: {INDEX}; T: type in {{half, float, double, int32, int64}} = double; "
    "dtype: type in {half, float, double, int32, int64} = int64; !stateful",
    gradient="none",
)
define.op(
    "StatefulStandardNormal(resource: resource, shape: shape_dtype) -> (output: dtype); dtype: type = float; "
    "shape_dtype: type = int64; !stateful",
    gradient="none",
)
define.op(
    "StatefulStandardNormalV2(resource: resource, algorithm: int64, shape: shape_dtype) -> (output: dtype); "
    "dtype: type = float; shape_dtype: type = int64; !stateful",
    gradient="none",
)
define.op(
    "StatefulTruncatedNormal(resource: resource, algorithm: int64, shape: shape_dtype) -> (output: dtype); "
    "dtype: type = float; shape_dtype: type = int64; !stateful",
    gradient="none",
)
define.op(
    "StatefulUniform(resource: resource, algorithm: int64, shape: shape_dtype) -> (output: dtype); "
    "dtype: type = float; shape_dtype: type = int64; !stateful",
    gradient="none",
)
define.op(
    "StatefulUniformFullInt(resource: resource, algorithm: int64, shape: shape_dtype) -> (output: dtype); "
    "dtype: type = uint64; shape_dtype: type = int64; !stateful",
    gradient="none",
)
define.op(
    "StatefulUniformInt(resource: resource, algorithm: int64, shape: shape_dtype, minval: dtype, "
    "maxval: dtype) -> (output: dtype); dtype: type = int64; shape_dtype: type = int64; !stateful",
    gradient="none",
)
define.op(
    f"StatelessMultinomial(logits: T, num_samples: int32, seed: Tseed) -> (output: output_dtype); T: {REALS}; "
    f"Tseed: {INDEX} = int64; output_dtype: {INDEX} = int64",
    gradient="none",
)
define.op(
    f"StatelessRandomBinomial(shape: S, seed: Tseed, counts: T, probs: T) -> (output: dtype); S: {INDEX}; "
    f"Tseed: {INDEX} = int64; T: type in {{half, float, double, int32, int64}} = double; "
    "dtype: type in {half, float, double, int32, int64} = int64",
    gradient="none",
)
define.op("StatelessRandomGetAlg() -> (alg: int32); !stateful", shape=[()])
define.op(
    f"StatelessRandomGetKeyCounter(seed: Tseed) -> (key: uint64, counter: uint64); Tseed: {INDEX} = int64",
    shape=[(1,), (2,)],
)
define.op(
    "StatelessRandomGetKeyCounterAlg(seed: Tseed) -> (key: uint64, counter: uint64, alg: int32); "
    f"Tseed: {INDEX} = int64",
    shape=[(1,), (2,), ()],
)
define.op(
    f"StatelessRandomNormal(shape: T, seed: Tseed) -> (output: dtype); dtype: {HALF_FIRST} = float; "
    f"T: {INDEX} = int32; Tseed: {INDEX} = int64",
    gradient="none",
)
define.op(
    "StatelessRandomNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> (output: dtype); "
    f"dtype: {HALF_FIRST} = float; Tshape: {INDEX} = int32",
    gradient="none",
)
define.op(
    "StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> (output: dtype); Rtype: type in {half, "
    f"float, double, int32, int64}}; dtype: type in {{half, float, double, int32, int64}}; T: {INDEX}; "
    f"Tseed: {INDEX} = int64",
    gradient="none",
)
define.op(
    f"StatelessRandomUniform(shape: T, seed: Tseed) -> (output: dtype); dtype: {HALF_FIRST} = float; "
    f"T: {INDEX} = int32; Tseed: {INDEX} = int64",
    gradient="none",
)
define.op(
    "StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> (output: dtype); dtype: type in {int32, int64, "
    f"uint32, uint64}} = uint64; T: {INDEX} = int32; Tseed: type in {{int32, int64, uint32, uint64}} = int64",
    gradient="none",
)
define.op(
    "StatelessRandomUniformFullIntV2(shape: Tshape, key: uint64, counter: uint64, "
    "alg: int32) -> (output: dtype); dtype: type in {int32, int64, uint32, uint64} = uint64; "
    f"Tshape: {INDEX} = int32",
    gradient="none",
)
define.op(
    "StatelessRandomUniformInt(shape: T, seed: Tseed, minval: dtype, maxval: dtype) -> (output: dtype); "
    f"dtype: {INDEX}; T: {INDEX}; Tseed: {INDEX} = int64",
    gradient="none",
)
define.op(
    "StatelessRandomUniformIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32, minval: dtype, "
    "maxval: dtype) -> (output: dtype); dtype: type in {int32, int64, uint32, uint64}; "
    f"Tshape: {INDEX} = int32",
    gradient="none",
)
define.op(
    "StatelessRandomUniformV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> (output: dtype); "
    f"dtype: {HALF_FIRST} = float; Tshape: {INDEX} = int32",
    gradient="none",
)
define.op(
    "StatelessShuffle(value: T, key: uint64, counter: uint64, alg: int32) -> (output: T); T: type", shape="unchanged"
)
define.op(
    f"StatelessTruncatedNormal(shape: T, seed: Tseed) -> (output: dtype); dtype: {HALF_FIRST} = float; "
    f"T: {INDEX} = int32; Tseed: {INDEX} = int64",
    gradient="none",
)
define.op(
    "StatelessTruncatedNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> (output: dtype); "
    f"dtype: {HALF_FIRST} = float; Tshape: {INDEX} = int32",
    gradient="none",
)
define.op(
    f"TruncatedNormal(shape: T) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: {HALF_FIRST}; "
    f"T: {INDEX}; !stateful",
    gradient="none",
)
define.op(
    "UniformCandidateSampler(true_classes: int64) -> (sampled_candidates: int64, true_expected_count: float, "
    "sampled_expected_count: float); num_true: int >= 1; num_sampled: int >= 1; unique: bool; "
    "range_max: int >= 1; seed: int = 0; seed2: int = 0; !stateful",
    gradient="none",
)
