#!/usr/bin/env python3
"""hidup's synthetic images in numpy, as src/train/images.h defines them, and CIFAR-10's format.

    images.py SEED FIRST COUNT FILE.bin    writes COUNT images of the seed
"""

import sys

import numpy as np

from philox import SHIFT, words

CLASSES, CHANNELS, SIDE, PATCH = 10, 3, 32, 4  # of pixels
PATCHES = (SIDE // PATCH) ** 2
PATCH_VALUES = CHANNELS * PATCH**2
SYNTHETIC = 50000  # images


def synthetic_record(seed, index):
    """Returns image `index` in the form of CIFAR-10's binary files: the class, then pixels by channel, row
    and column; uint8 [3073]."""
    values = CHANNELS * SIDE**2
    random = words(seed, "data/images", index, 1 + values // 4)
    label = int(random[0] * np.uint64(CLASSES) >> SHIFT)
    noise = random[1:].astype("<u4").view(np.uint8)
    bright = words(seed, "data/images/patterns", label, PATCHES * CHANNELS) & np.uint64(1)
    grid = bright.reshape(SIDE // PATCH, SIDE // PATCH, CHANNELS).transpose(2, 0, 1)
    pattern = grid.repeat(PATCH, 1).repeat(PATCH, 2).flatten().astype(np.uint8)
    return np.concatenate([[label], 32 + 64 * pattern + noise // 2]).astype(np.uint8)


def patches(records):
    """Returns the pixels of records, [n, PATCHES, PATCH_VALUES] in -1 .. 1: patches row by row, each by
    channel, row and column."""
    across = SIDE // PATCH
    pixels = records[:, 1:].reshape(-1, CHANNELS, across, PATCH, across, PATCH)
    cut = pixels.transpose(0, 2, 4, 1, 3, 5).reshape(-1, PATCHES, PATCH_VALUES)
    return (cut.astype(np.float64) / 255 - 0.5) / 0.5


def shuffled(seed, epoch, size, index):
    """Returns the place of sample `index` of an epoch: the Permutation of src/train/batches.h."""
    half = 0
    while 1 << (2 * half) < size:
        half += 1
    mask, value = (1 << half) - 1, index
    while True:
        left, right = value >> half, value & mask
        for turn in range(8):
            word = words(seed, "data/order", epoch, 1, first=4 * ((turn << 32) | right))[0]
            left, right = right, left ^ (int(word) & mask)
        value = (left << half) | right
        if value < size:
            return value


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: images.py SEED FIRST COUNT FILE.bin")
    seed, first, count = map(int, sys.argv[1:4])
    np.stack([synthetic_record(seed, first + i) for i in range(count)]).tofile(sys.argv[4])


if __name__ == "__main__":
    main()
