"""Properties of an H100 SXM for the estimates: limits of a multiprocessor, and rates that others measured."""

import math

MULTIPROCESSORS = 132
CLOCK = 1.83e9  # the clock of the tensor cores' peak [MAMF]

PRODUCTS = 790e12  # flop/s in bf16 of a large product by cuBLAS [MAMF]
MEMORY = 3.0e12  # bytes/s, read and written [QuACK]
CACHE = 20e12  # bytes/s of the L1 caches, at least as fast as shared memory [QuACK]
MMA_SYNC = 0.63 * 989e12  # flop/s of the tensor instruction that attention uses [Hopper]
TENSOR_FLOPS = 16 * 8 * 16 * 2 / 32  # of that instruction, for each thread of a warp
ISSUE = 4 * 32 * MULTIPROCESSORS * CLOCK  # instructions/s of threads: one of a warp in each quarter

# Instructions of threads that the units of all multiprocessors start per second (CUDA C++ Programming Guide,
# arithmetic instructions).
UNITS = {unit: per_clock * MULTIPROCESSORS * CLOCK
         for unit, per_clock in {"integer": 64, "double": 64, "special": 16}.items()}

# Limits of one multiprocessor (compute capability 9.0, CUDA C++ Programming Guide).
QUARTERS = 4  # each has a scheduler and its own registers
REGISTERS = 16384  # of a quarter
REGISTER_UNIT = 256  # the least of a warp
WARPS = 64
BLOCKS = 32
SHARED = 228 * 1024
SHARED_OF_SYSTEM = 1024  # per block
SHARED_UNIT = 128


def round_up(value, unit):
    return -(-value // unit) * unit


def resident_warps(registers, threads, shared):
    """Returns a kernel's resident warps, by registers of a thread, threads and bytes of a block."""
    warps = -(-threads // 32)
    of_quarter = REGISTERS // round_up(32 * registers, REGISTER_UNIT)
    blocks = min(QUARTERS * of_quarter // warps, WARPS // warps, BLOCKS,
                 SHARED // (round_up(shared, SHARED_UNIT) + SHARED_OF_SYSTEM))
    return blocks * warps


TILES = ((128, 256), (256, 128), (128, 128))  # of a result, in cuBLAS's kernels for sm_90
SPLITS = range(1, 9)  # of the summed dimension, where tiles are few
SHORTEST = 512  # summed elements of a part


def used_share(rows, columns, summed, batch=1):
    """Returns a product's share of the tensor cores: tiles come in waves of one per multiprocessor, and the
    last wave and the last tiles are not full (NVIDIA, Matrix Multiplication Background, quantization)."""
    def share(tile, split):
        tiles = batch * split * math.ceil(rows / tile[0]) * math.ceil(columns / tile[1])
        room = round_up(tiles, MULTIPROCESSORS) * tile[0] * tile[1]
        return batch * split * rows * columns / room
    return max(share(tile, split) for tile in TILES for split in SPLITS
               if split == 1 or summed // split >= SHORTEST)
