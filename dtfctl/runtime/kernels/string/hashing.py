"""The hashes behind StringToHashBucket*: FarmHash fingerprint, a Murmur-like hash, and SipHash.

Sources: Pike and Alakuijala, FarmHash (farmhashna, 64 bit); Appleby, MurmurHash2 (64A); Aumasson and Bernstein,
"SipHash: a fast short-input PRF" (2012).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.pieces import look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_to

_M = 2**64 - 1
_OFTEN = (1 << 14) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _fetch(s: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(s[at : at + size], "little")


def _rotate(v: int, by: int) -> int:
    return ((v >> by) | (v << (64 - by))) & _M


def _shift_mix(v: int) -> int:
    return v ^ (v >> 47)


def _hash16(u: int, v: int, mul: int) -> int:
    a = ((u ^ v) * mul) & _M
    a ^= a >> 47
    b = ((v ^ a) * mul) & _M
    b ^= b >> 47
    return (b * mul) & _M


def _short(s: bytes) -> int:
    n = len(s)
    mul = (_K2 + n * 2) & _M
    if n >= 8:
        a, b = (_fetch(s, 0) + _K2) & _M, _fetch(s, n - 8)
        c = (_rotate(b, 37) * mul + a) & _M
        d = ((_rotate(a, 25) + b) * mul) & _M
        return _hash16(c, d, mul)
    if n >= 4:
        return _hash16((n + (_fetch(s, 0, 4) << 3)) & _M, _fetch(s, n - 4, 4), mul)
    if n > 0:
        y = s[0] + (s[n >> 1] << 8)
        z = n + (s[n - 1] << 2)
        return (_shift_mix((y * _K2 & _M) ^ (z * _K0 & _M)) * _K2) & _M
    return _K2


def _middle(s: bytes) -> int:
    n = len(s)
    mul = (_K2 + n * 2) & _M
    first = _K1 if n <= 32 else _K2
    a, b = (_fetch(s, 0) * first) & _M, _fetch(s, 8)
    c, d = (_fetch(s, n - 8) * mul) & _M, (_fetch(s, n - 16) * _K2) & _M
    y = (_rotate((a + b) & _M, 43) + _rotate(c, 30) + d) & _M
    z = _hash16(y, (a + _rotate((b + _K2) & _M, 18) + c) & _M, mul)
    if n <= 32:
        return z
    e, f = (_fetch(s, 16) * mul) & _M, _fetch(s, 24)
    g = ((y + _fetch(s, n - 32)) * mul) & _M
    h = ((z + _fetch(s, n - 24)) * mul) & _M
    return _hash16((_rotate((e + f) & _M, 43) + _rotate(g, 30) + h) & _M, (e + _rotate((f + a) & _M, 18) + g) & _M, mul)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_fetch(s, at + 8 * i) for i in range(4))
    a = (a + w) & _M
    b = _rotate((b + a + z) & _M, 21)
    c = a
    a = (a + x + y) & _M
    b = (b + _rotate(a, 44)) & _M
    return (a + z) & _M, (b + c) & _M


@lru_cache(maxsize=4096)
def fingerprint64(s: bytes) -> int:
    """FarmHash's 64-bit fingerprint, as TensorFlow's Fingerprint64."""
    n = len(s)
    if n <= 16:
        return _short(s)
    if n <= 64:
        return _middle(s)
    x = 81
    y = (81 * _K1 + 113) & _M
    z = (_shift_mix((y * _K2 + 113) & _M) * _K2) & _M
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _fetch(s, 0)) & _M
    end = ((n - 1) // 64) * 64
    at, mul = 0, _K1
    while True:
        if not at & _OFTEN:
            look()
        last = at == end
        if last:
            mul = (_K1 + ((z & 0xFF) << 1)) & _M
            at = end + ((n - 1) & 63) - 63
            w = ((w[0] + ((n - 1) & 63)) & _M, w[1])
            v = ((v[0] + w[0]) & _M, v[1])
            w = ((w[0] + v[0]) & _M, w[1])
        x = (_rotate((x + y + v[0] + _fetch(s, at + 8)) & _M, 37) * mul) & _M
        y = (_rotate((y + v[1] + _fetch(s, at + 48)) & _M, 42) * mul) & _M
        x ^= (w[1] * (9 if last else 1)) & _M
        y = (y + v[0] * (9 if last else 1) + _fetch(s, at + 40)) & _M
        z = (_rotate((z + w[0]) & _M, 33) * mul) & _M
        v = _weak(s, at, (v[1] * mul) & _M, (x + w[0]) & _M)
        w = _weak(s, at + 32, (z + w[1]) & _M, (y + _fetch(s, at + 16)) & _M)
        z, x = x, z
        if last:
            break
        at += 64
    return _hash16((_hash16(v[0], w[0], mul) + _shift_mix(y) * _K0 + z) & _M, (_hash16(v[1], w[1], mul) + x) & _M, mul)


def hash64(s: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """TensorFlow's Hash64, a variant of MurmurHash2."""
    m = 0xC6A4A7935BD1E995
    n = len(s)
    h = seed ^ (n * m & _M)
    whole = n & ~7
    for at in range(0, whole, 8):
        if not at & _OFTEN:
            look()
        k = (_fetch(s, at) * m) & _M
        k = ((k ^ (k >> 47)) * m) & _M
        h = ((h ^ k) * m) & _M
    if n & 7:
        h = ((h ^ _fetch(s, whole, n & 7)) * m) & _M
    h = ((h ^ (h >> 47)) * m) & _M
    return h ^ (h >> 47)


def siphash(key0: int, key1: int, s: bytes) -> int:
    """Hash bytes by SipHash-2-4 under a key of two 64-bit halves."""
    v0, v1 = key0 ^ 0x736F6D6570736575, key1 ^ 0x646F72616E646F6D
    v2, v3 = key0 ^ 0x6C7967656E657261, key1 ^ 0x7465646279746573

    def rounds(count: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0 = (v0 + v1) & _M
            v1 = _rotate(v1, 51) ^ v0
            v0 = _rotate(v0, 32)
            v2 = (v2 + v3) & _M
            v3 = _rotate(v3, 48) ^ v2
            v0 = (v0 + v3) & _M
            v3 = _rotate(v3, 43) ^ v0
            v2 = (v2 + v1) & _M
            v1 = _rotate(v1, 47) ^ v2
            v2 = _rotate(v2, 32)

    whole = len(s) & ~7
    last = ((len(s) & 0xFF) << 56) | int.from_bytes(s[whole:], "little")
    for at in range(0, whole + 8, 8):
        if not at & _OFTEN:
            look()
        word = _fetch(s, at) if at < whole else last
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xFF
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3


def _bucket_kernel(function: Callable[[bytes], int], buckets: int) -> Kernel:
    def run(values: Any) -> Any:
        return map_to(lambda v: function(v) % buckets, values, np.int64)

    return run


@register_kernel("StringToHashBucketFast", pieces=True)
def string_to_hash_bucket_fast(k: KernelBuild) -> Kernel:
    return _bucket_kernel(fingerprint64, k.attr("num_buckets"))


@register_kernel("StringToHashBucket", pieces=True)
def string_to_hash_bucket(k: KernelBuild) -> Kernel:
    return _bucket_kernel(hash64, k.attr("num_buckets"))


@register_kernel("StringToHashBucketStrong", pieces=True)
def string_to_hash_bucket_strong(k: KernelBuild) -> Kernel:
    key = k.attr("key")
    if len(key) != 2:
        raise InvalidArgumentError("Key must have 2 elements", k.node.name)
    key0, key1 = (part & _M for part in key)
    return _bucket_kernel(lambda s: siphash(key0, key1, s), k.attr("num_buckets"))
