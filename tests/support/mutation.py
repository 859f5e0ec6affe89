"""Bytes with a few faults in them, as hostile or broken processes send them."""

from __future__ import annotations

import random


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change, take out, insert, repeat or cut off some of `data`."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0 if at < len(found):
                found[at] = rng.choice(
                    [0x80, 0x90, 0xC0, 0xC1, 0xC7, 0xCB, 0xCF, 0xD3, 0xDB, 0xDD, 0xDF, rng.randrange(256)]
                )
            case 1:
                del found[at : at + rng.randrange(1, 4)]
            case 2:
                found[at:at] = rng.randbytes(rng.randrange(1, 6))
            case 3:
                found[at:at] = found[max(0, at - rng.randrange(1, 20)) : at]
            case _:
                del found[max(1, at) :]
    return bytes(found)
