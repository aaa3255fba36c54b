#!/usr/bin/env python3
"""Causal attention of hidup beside PyTorch's scaled_dot_product_attention, forward and backward.

    python3 tests/bench/attention.py                                                # on a GPU
    python3 tests/bench/attention.py --program build/tests/bench/bench_kernels --device cpu --small

bf16, 16,384 tokens, width 768, heads of 64 and of 128. hidup's times are those of bench_kernels,
which runs a GPT-2 of one layer; PyTorch's are of its fastest backend that supports the case, on
queries, keys and values in one tensor, like hidup's. Neither side finds data in the cache. Medians.
Needs PyTorch, without which it ends with code 77. One minute on a GPU.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

try:
    import torch
    from torch.nn import functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    print(f"attention.py: skipped: {error}")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WIDTH = 768
FLUSH = 256  # MiB, several times the L2 of a GPU
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
PASSES = ("attention", "attention_backward")  # bench_kernels' names


def hidup_times(args, batch, sequence, heads):
    """Returns seconds of each of PASSES, and flops."""
    settings = {"model.layers": 1, "model.hidden": WIDTH, "model.heads": heads, "model.vocab": 1000,
                "model.sequence": sequence, "model.precision": "bf16", "train.batch": batch}
    command = [args.program, SOURCE / "inputs" / "models" / "gpt2-124m.yaml", "--flush", FLUSH,
               "--product", 1024, "--memory", 64, "--steps", 1 + args.repetitions,
               "--threads", torch.get_num_threads()]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")]
            for line in output.splitlines() if line.startswith("| ")]
    table = {row[0]: dict(zip(rows[0], row)) for row in rows[1:]}
    return [(1e-6 * float(table[name]["us"]), 1e9 * float(table[name]["Gflop"]))
            for name in PASSES]


class Clock:
    """Times work on the device after the cache is overwritten; returns medians."""

    def __init__(self, args):
        self.device, self.repetitions = args.device, args.repetitions
        self.flush = torch.empty(FLUSH << 20, dtype=torch.int8, device=args.device)

    def once(self, work):
        self.flush.zero_()
        if self.device == "cpu":
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        return 1e-3 * start.elapsed_time(end)

    def median(self, work):
        for _ in range(2):
            self.once(work)
        return statistics.median(self.once(work) for _ in range(self.repetitions))


def torch_times(clock, batch, sequence, heads, backend):
    """Returns seconds of each of PASSES."""
    packed = torch.randn(batch, sequence, 3, heads, WIDTH // heads, dtype=torch.bfloat16,
                         device=clock.device)
    q, k, v = (part.detach().requires_grad_() for part in packed.permute(2, 0, 3, 1, 4))

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    with sdpa_kernel(backend):
        y = forward()
        dy = torch.randn_like(y)
        return (clock.median(forward),
                clock.median(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)))


def all_torch_times(clock, lacks, *shape):
    """Returns {backend: seconds of each of PASSES}; adds {backend: why not} of the others to `lacks`."""
    times = {}
    for name, backend in BACKENDS.items():
        if name == "math" and times:  # it needs memory for all scores, and is never the fastest
            continue
        try:
            times[name] = torch_times(clock, *shape, backend)
        except RuntimeError as error:
            lacks[name] = str(error).splitlines()[0]
    return times


def compare(args, clock, lacks, batch, sequence, heads):
    """Prints a row of the table for each of PASSES."""
    ours = hidup_times(args, batch, sequence, heads)
    theirs = all_torch_times(clock, lacks, batch, sequence, heads)
    for i, (name, (seconds, flops)) in enumerate(zip(PASSES, ours)):
        best = min(theirs, key=lambda backend: theirs[backend][i])
        others = ", ".join(f"{backend} {1e6 * times[i]:,.0f}" for backend, times in theirs.items())
        print(f"| {name} | {sequence} | {WIDTH // heads} | {1e6 * seconds:,.0f} | "
              f"{1e-12 * flops / seconds:.1f} | {others} | "
              f"{1e-12 * flops / theirs[best][i]:.1f} | {theirs[best][i] / seconds:.2f} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="bench_kernels",
                        default=SOURCE / "build-cuda" / "tests" / "bench" / "bench_kernels")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="few tokens: figures mean nothing")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("attention.py: PyTorch finds no GPU; --device cpu --small shows that it works")
    place = torch.cuda.get_device_name() if args.device == "cuda" else "the CPU"
    print(f"## Attention beside PyTorch {torch.__version__}\n\n{place}, bf16, causal. hidup / PyTorch: "
          "of the rates, with the fastest backend.\n")
    if args.small:
        print("Few tokens: the figures mean nothing.\n")
    print("| pass | sequence | head | hidup us | Tflop/s | PyTorch us | best Tflop/s | "
          "hidup / PyTorch |\n|---|---|---|---|---|---|---|---|", flush=True)
    clock, lacks = Clock(args), {}
    tokens, sequences = (256, (64, 128)) if args.small else (16384, (1024, 4096))
    for sequence in sequences:
        for heads in (12, 6):
            compare(args, clock, lacks, tokens // sequence, sequence, heads)
    for name, reason in lacks.items():
        print(f"\nWithout {name}: {reason}")


if __name__ == "__main__":
    main()
