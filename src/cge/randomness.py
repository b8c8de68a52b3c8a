"""One seed, many independent streams, the same bytes for any number of threads.

`generator(seed, *names)` is an ordinary `numpy.random.Generator` for the stream with these names. `key(seed, *names)`
is a 64-bit key for *counter-based* numbers: inside a kernel the number with index c is `mix(key + c * STEP)`, a hash of
its index and not of what was drawn before. Any thread, in any order, computes the same number.

`mix` is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014),
`mix32` that of MurmurHash3 (Appleby 2011), of which processors compute eight at once.
"""

from __future__ import annotations

import hashlib
from numbers import Integral

import numpy as np

from cge.errors import InputError
from cge.parallel import Int, kernel

STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: multiples of it visit every 64-bit number
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32), np.uint64(11)
STEP32 = np.uint32(0x9E3779B9)
_FIRST32, _SECOND32, _16, _13 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35), np.uint32(16), np.uint32(13)
_UNIT = 1.0 / (1 << 53)


def _digest(seed: int, names: tuple[str | int, ...]) -> bytes:
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"the seed must be an integer of at least 0, found {seed!r}")
    digest = hashlib.blake2b(digest_size=32)
    for name in (int(seed), *names):
        text = f"{'text' if isinstance(name, str) else 'number'} {name}".encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.digest()


def key(seed: int, *names: str | int) -> np.uint64:
    """Return the 64-bit key of the stream with these names."""
    return np.uint64(int.from_bytes(_digest(seed, names)[:8], "little"))


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream with these names."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(_digest(seed, names), "little")))


@kernel
def mix(z: np.uint64) -> np.uint64:
    """Scramble 64 bits: a bijection whose output bits each depend on every input bit."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@kernel
def mix32(z: np.uint32) -> np.uint32:
    """Scramble 32 bits in the same way; the number with index c is `mix32(key + c * STEP32)`."""
    z = np.uint32(np.uint32(z ^ (z >> _16)) * _FIRST32)
    z = np.uint32(np.uint32(z ^ (z >> _13)) * _SECOND32)
    return np.uint32(z ^ (z >> _16))


@kernel
def below(random: np.uint64, bound: Int) -> np.int64:
    """Map 64 random bits to 0 … bound-1 (bound < 2^32) by multiplication of the upper half; bias below bound / 2^32."""
    return np.int64(((random >> _32) * np.uint64(bound)) >> _32)


@kernel
def unit(random: np.uint64) -> float:
    """Map 64 random bits to a float64 in [0, 1)."""
    return float(random >> _11) * _UNIT
