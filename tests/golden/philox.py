"""hidup's random numbers in numpy, as src/core/random.h defines them: Philox by global index."""

import math

import numpy as np

U32 = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def philox(counter_low, counter_high, key):
    """Returns Philox4x32-10 of 64-bit counter halves: words as uint64 [..., 4]."""
    low, high, key = (np.asarray(x, dtype=np.uint64) for x in (counter_low, counter_high, key))
    c0, c1, c2, c3 = low & U32, low >> SHIFT, high & U32, high >> SHIFT
    k0, k1 = key & U32, key >> SHIFT
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> SHIFT) ^ c1 ^ k0, p1 & U32, (p0 >> SHIFT) ^ c3 ^ k1, p0 & U32
        k0 = (k0 + np.uint64(0x9E3779B9)) & U32
        k1 = (k1 + np.uint64(0xBB67AE85)) & U32
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), axis=-1)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def words(seed, purpose, step, count, first=0):
    """Returns words first .. first + count - 1 of random_stream(seed, purpose, step); 4 divides first."""
    mixed = philox(fnv1a(purpose), 0, seed)
    key = (mixed[1] << SHIFT) | mixed[0]
    blocks = np.uint64(first // 4) + np.arange((count + 3) // 4, dtype=np.uint64)
    return philox(blocks, step, key).reshape(-1)[:count]


def uniform(seed, purpose, step, shape):
    """Returns float32 in [0, 1) by global row-major index."""
    top = words(seed, purpose, step, math.prod(shape)) >> np.uint64(8)
    return top.astype(np.float32).reshape(shape) * np.float32(2.0**-24)


def normal(seed, purpose, step, shape):
    """Returns float32 with mean 0 and variance 1, by Box and Muller, by global row-major index."""
    pairs = words(seed, purpose, step, 2 * math.prod(shape)).reshape(-1, 2).astype(np.float64)
    radius = np.sqrt(-2 * np.log((pairs[:, 0] + 1) * 2.0**-32))
    return (radius * np.cos(2 * np.pi * pairs[:, 1] * 2.0**-32)).astype(np.float32).reshape(shape)


def check_generator():
    """Checks known answers: Random123's kat_vectors for philox4x32-10, and FNV-1a's own."""
    answers = [
        ((0, 0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**64 - 1, 2**64 - 1, 2**64 - 1), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x299F31D0_A4093822),
         "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for arguments, expected in answers:
        found = " ".join(f"{int(word):08x}" for word in philox(*arguments))
        assert found == expected, f"philox{arguments}: {found}, expected {expected}"
    assert fnv1a("a") == 0xAF63DC4C8601EC8C
