"""Candidate samplers for losses over many classes (TensorFlow's range_sampler, candidate_sampler_ops)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.pieces import array_of, each, look, update_at
from dtfctl.runtime.kernels.random.common import generator_of
from dtfctl.runtime.kernels.random.philox import Philox, WordStream, to_float64
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_MOST_TRIES = 2**31 - 1


class Sampler:
    """A distribution over [0, size)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def draws(self, gen: Philox, count: int) -> Draws:
        """Begin to draw; `count` values are wanted, or somewhat more."""
        raise NotImplementedError

    def probability(self, values: Any) -> Any:
        """float32 probabilities of int64 values."""
        raise NotImplementedError

    def update(self, values: Any) -> None:
        """Learn from true classes seen; most samplers do not."""


class Draws:
    """Values one after the other; `next` gives a batch of at least one."""

    def next(self) -> list[int]:
        raise NotImplementedError


class _WordDraws(Draws):
    def __init__(self, gen: Philox, draw: Any) -> None:
        self._words = WordStream(gen)
        self._draw = draw

    def next(self) -> list[int]:
        return [self._draw(self._words)]


def exact_uniform(words: WordStream, limit: int, bits: int) -> int:
    """Draw an integer below `limit` without bias (TensorFlow's ExactUniformInt over 32 or 64 bits)."""

    def draw() -> int:
        low = words.next()
        return low if bits == 32 else low | words.next() << 32

    if limit & (limit - 1) == 0:
        return draw() & (limit - 1)
    rejected = ((1 << bits) - 1) % limit + 1
    while True:
        value = draw()
        if value >= rejected:
            return value % limit


class Uniform(Sampler):
    def draws(self, gen: Philox, count: int) -> Draws:
        return _WordDraws(gen, lambda words: exact_uniform(words, self.size, 64))

    def probability(self, values: Any) -> Any:
        return np.full(values.shape, 1.0 / self.size, np.float32)


class _LogUniformDraws(Draws):
    """Many at once: each value takes two words."""

    def __init__(self, gen: Philox, size: int, count: int) -> None:
        # Two of them are four values: a few more than are wanted, as some may be drawn twice.
        self._gen, self._size, self._blocks = gen, size, min(max(count, 32), 4096)
        self._log_range = np.log1p(float(size))

    def next(self) -> list[int]:
        words = self._gen.words(self._blocks).reshape(-1, 2)
        self._gen = self._gen.skip(self._blocks)
        self._blocks = min(2 * self._blocks, 4096)
        values = np.exp(to_float64(words[:, 0], words[:, 1]) * self._log_range).astype(np.int64) - 1
        chosen: list[int] = (values % self._size).tolist()
        return chosen


class LogUniform(Sampler):
    def draws(self, gen: Philox, count: int) -> Draws:
        return _LogUniformDraws(gen, self.size, count)

    def probability(self, values: Any) -> Any:
        return (np.log((values + 2.0) / (values + 1.0)) / np.log1p(float(self.size))).astype(np.float32)


class Unigram(Sampler):
    """Learns how often classes occur: every class starts with weight 1."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        admit((size,), 8)
        self._weights = np.ones(size, np.int64)
        self._lock = threading.Lock()

    def draws(self, gen: Philox, count: int) -> Draws:
        with self._lock:
            cumulative = np.cumsum(self._weights)

        def draw(words: WordStream) -> int:
            at = exact_uniform(words, int(cumulative[-1]), 32)
            return int(np.searchsorted(cumulative, at, side="right"))

        return _WordDraws(gen, draw)

    def probability(self, values: Any) -> Any:
        with self._lock:
            weights = self._weights[values].astype(np.float32)
            return weights / np.float32(self._weights.sum())

    def update(self, values: Any) -> None:
        with self._lock:
            update_at(np.add, self._weights, values.reshape(-1), np.ones(values.size, np.int64))


class FixedUnigram(Sampler):
    """A given distribution, drawn by the alias method (Walker 1977), built as TensorFlow builds it."""

    def __init__(self, size: int, weights: Any, name: str) -> None:
        super().__init__(size)
        if len(weights) != size:
            raise InvalidArgumentError(f"range is {size} must be equal to weights size  {len(weights)}", name)
        self._weights = np.asarray(weights, np.float32)
        self._total = np.float32(0)
        for weight in self._weights:
            self._total += weight
        self._build()

    def _build(self) -> None:
        count = self.size
        total = float(self._weights.astype(np.float64).sum())
        if not total:
            raise InvalidArgumentError("The weights of the unigrams are all 0, so that none can be drawn")
        share = [float(np.float32(w * np.float32(count))) / total for w in self._weights]
        self._alias = list(range(count))
        low = [i for i, p in enumerate(share) if p < 1.0]
        high = [i for i, p in enumerate(share) if p >= 1.0]
        while high and low:
            small, large = low.pop(), high.pop()
            self._alias[small] = large
            share[large] -= 1.0 - share[small]
            (low if share[large] < 1.0 else high).append(large)
        for i in high + low:
            share[i] = 1.0
        self._share = [float(np.float32(p)) for p in share]

    def draws(self, gen: Philox, count: int) -> Draws:
        def draw(words: WordStream) -> int:
            r = words.next_float32()
            index = exact_uniform(words, self.size, 32)
            return index if r < self._share[index] else self._alias[index]

        return _WordDraws(gen, draw)

    def probability(self, values: Any) -> Any:
        inside = (values >= 0) & (values < self.size)
        return np.where(inside, self._weights[np.where(inside, values, 0)] / self._total, np.float32(0))


def _expected(probability: Any, batch: int, tries: int) -> Any:
    if tries == batch:
        return (probability * np.float32(batch)).astype(np.float32)
    return (-np.expm1(tries * np.log1p(-probability))).astype(np.float32)


def _kernel(k: KernelBuild, sampler: Sampler) -> Kernel:
    count, num_true, unique = k.attr("num_sampled"), k.attr("num_true"), k.attr("unique")
    generator = generator_of(k)
    if unique and count > sampler.size:
        raise InvalidArgumentError(
            f"Sampler's range is too small: {count} unique samples of {sampler.size} classes", k.node.name
        )

    def kernel(true_classes: Any) -> tuple[Any, Any, Any]:
        if true_classes.ndim != 2:
            raise InvalidArgumentError("true_classes must be a matrix")
        if true_classes.shape[1] != num_true:
            raise InvalidArgumentError(
                f"true_classes must have num_true columns, expected: {true_classes.shape[1]} was: {num_true}"
            )
        outside = (true_classes < 0) | (true_classes >= sampler.size)
        if outside.any():
            bad = int(true_classes[outside][0])
            raise InvalidArgumentError(f"`true_candidate` out of range [0, {sampler.size}), received {bad}")
        gen = generator.reserve_words(2048 * count)
        chosen, tries = _draw(sampler, gen, count, unique)
        sampled = array_of(chosen, np.int64)
        outputs = (
            sampled,
            _expected(sampler.probability(true_classes), count, tries),
            _expected(sampler.probability(sampled), count, tries),
        )
        sampler.update(true_classes)
        return outputs

    return kernel


def _draw(sampler: Sampler, gen: Philox, count: int, unique: bool) -> tuple[list[int], int]:
    """`count` values and how many draws they took."""
    draws = sampler.draws(gen, count)
    chosen: list[int] = []
    used: set[int] = set()
    tries = 0
    while len(chosen) < count:
        look()
        for value in draws.next():
            tries += 1
            if unique:
                if value in used:
                    continue
                used.add(value)
            chosen.append(value)
            if len(chosen) == count:
                break
        if tries >= _MOST_TRIES:
            raise InvalidArgumentError(f"Could not draw {count} different classes")
    return chosen, tries


_SAMPLERS: dict[str, type[Sampler]] = {
    "UniformCandidateSampler": Uniform,
    "LogUniformCandidateSampler": LogUniform,
    "LearnedUnigramCandidateSampler": Unigram,
    "ThreadUnsafeUnigramCandidateSampler": Unigram,
}


@register_kernel(tuple(_SAMPLERS), pieces=True)
def candidate_sampler(k: KernelBuild) -> Kernel:
    return _kernel(k, _SAMPLERS[k.node.op](k.attr("range_max")))


@register_kernel("FixedUnigramCandidateSampler", pieces=True)
def fixed_unigram_candidate_sampler(k: KernelBuild) -> Kernel:
    vocabulary, unigrams = k.text_attr("vocab_file"), list(k.attr("unigrams") or ())
    if not vocabulary and not unigrams:
        raise InvalidArgumentError("Must provide either vocab_file or unigrams.", k.node.name)
    if vocabulary and unigrams:
        raise InvalidArgumentError("Must only provide one of vocab_file and unigrams.", k.node.name)
    if vocabulary:
        unigrams = _read_vocabulary(vocabulary, k.node.name)
    shards, shard, reserved = k.attr("num_shards", 1), k.attr("shard", 0), k.attr("num_reserved_ids", 0)
    distortion = np.float32(k.attr("distortion", 1.0))
    admit((len(range(shard, reserved, shards)),), 8)
    own = [np.float32(0)] * len(range(shard, reserved, shards))
    begin = len(own)
    own += [np.float32(w) ** distortion for i, w in enumerate(unigrams, begin) if i % shards == shard]
    return _kernel(k, FixedUnigram(k.attr("range_max"), own, k.node.name))


def _read_vocabulary(path: str, node: str) -> list[float]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as e:
        raise NotFoundError(f"{path}; {e.strerror}", node) from None
    out = []
    for line in lines:
        try:
            out.append(float(line.split(",")[-1]))
        except ValueError:
            raise InvalidArgumentError(f"Wrong vocabulary format at line: {line}", node) from None
    return out


@register_kernel("AllCandidateSampler")
def all_candidate_sampler(k: KernelBuild) -> Kernel:
    count, num_true = k.attr("num_sampled"), k.attr("num_true")

    def kernel(true_classes: Any) -> tuple[Any, Any, Any]:
        if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
            raise InvalidArgumentError(
                f"true_classes must be a matrix of num_true columns, got {shape_text(true_classes.shape)}"
            )
        outside = true_classes[(true_classes < 0) | (true_classes >= count)]
        if outside.size:
            raise InvalidArgumentError(f"`true_candidate` out of range [0, {count}), received {int(outside[0])}")
        ones = np.ones(true_classes.shape, np.float32)
        return np.arange(count, dtype=np.int64), ones, np.ones(count, np.float32)

    return kernel


@register_kernel("ComputeAccidentalHits", pieces=True)
def compute_accidental_hits(k: KernelBuild) -> Kernel:
    num_true = k.attr("num_true")

    def kernel(true_classes: Any, sampled: Any) -> tuple[Any, Any, Any]:
        if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
            raise InvalidArgumentError("true_candidates must be a batch_size * num_true matrix")
        if sampled.ndim != 1:
            raise InvalidArgumentError(
                "sampled_candidates must be a vector, which is typically an output from CandidateSampler"
            )
        place = {value: i for i, value in enumerate(each(sampled))}
        hits = [(at // num_true, place[value]) for at, value in enumerate(each(true_classes)) if value in place]
        indices = array_of([row for row, _ in each(hits)], np.int32)
        ids = array_of([at for _, at in each(hits)], np.int64)
        return indices, ids, np.full(len(hits), np.finfo(np.float32).min, np.float32)

    return kernel
