#!/usr/bin/env python3
"""Compares a run of hidup with golden values from PyTorch.

    check_golden.py GOLDEN.json RUN.h5 GRADIENTS.h5

RUN.h5 is the timing file, and GRADIENTS.h5 the output of --dump-gradients. Prints the worst
difference of each kind; exits with 1 if one is beyond TOLERANCE or a value is missing or extra.
"""

import json
import sys

import h5py
import numpy as np

# The tolerance is relative. hidup computes in float32 (epsilon 1.2e-7), the golden values are float64.
TOLERANCE = 1e-5
# A gradient that is zero or far below the others is compared relative to this share of the largest gradient
# of all: its value may be the rounding of larger terms that cancel.
FLOOR = 1e-3


def compare_steps(name, expected, found):
    """Returns the worst relative difference over the steps, with its description."""
    expected, found = np.array(expected), np.asarray(found, dtype=np.float64)
    if found.shape != expected.shape:
        return np.inf, f"{name}: {len(expected)} steps expected, found {found.shape}"
    difference = np.abs(found - expected) / np.abs(expected)
    step = int(np.argmax(np.nan_to_num(difference, nan=np.inf)))
    text = f"{name}: worst at step {step + 1}: {found[step]:.9g}, expected {expected[step]:.9g}"
    return difference[step], text


def compare_accuracy(expected, run):
    """Returns the worst difference over the steps, with its description; 0 where none is expected."""
    if ("accuracy" in run["iterations"]) != (expected is not None):
        return np.inf, "accuracy: " + ("not expected" if expected is None else "missing")
    if expected is None:
        return 0.0, "accuracy: none"
    found = run["iterations/accuracy"][:]
    return np.abs(found - np.array(expected)).max(), f"accuracy: {found}, expected {expected}"


def compare_experts(golden, run):
    """Returns 0 where the experts' loads are equal, else infinity, with a description."""
    if ("experts" in run) != (golden is not None):
        return np.inf, "experts: " + ("not expected" if golden is None else "missing")
    if golden is None:
        return 0.0, "experts: none"
    for name, expected in golden.items():
        expected, found = np.array(expected), run["experts"][name][:]
        if found.shape != expected.shape:
            return np.inf, f"experts: {name} {found.shape}, expected {expected.shape}"
        for step, layer, expert in np.argwhere(found != expected)[:1]:
            return np.inf, (f"experts: {name} of step {step + 1}, layer {layer}, expert {expert}: "
                            f"{found[step, layer, expert]}, "
                            f"expected {expected[step, layer, expert]}")
    return 0.0, "experts: equal loads"


def compare_gradients(golden, file):
    """Returns the worst max |difference| / max |expected| of a parameter, with its description."""
    expected = {n: np.array(g["values"]).reshape(g["shape"]) for n, g in golden.items()}
    missing, extra = sorted(expected.keys() - file.keys()), sorted(file.keys() - expected.keys())
    if missing or extra:
        return np.inf, f"gradients: missing {missing}, not expected {extra}"
    floor = FLOOR * max(np.abs(values).max() for values in expected.values())
    worst, text = -1.0, ""
    for name, values in expected.items():
        found = np.asarray(file[name], dtype=np.float64)
        if found.shape != values.shape:
            return np.inf, f"gradient of {name}: shape {found.shape}, expected {values.shape}"
        difference = np.abs(found - values)
        at = np.unravel_index(np.argmax(np.nan_to_num(difference, nan=np.inf)), values.shape)
        relative = difference[at] / max(np.abs(values).max(), floor)
        if not relative <= worst:
            place = ", ".join(str(index) for index in at)
            worst = relative
            text = (f"gradients: worst in {name} at [{place}]: {found[at]:.9g}, "
                    f"expected {values[at]:.9g}")
    return worst, text


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: check_golden.py GOLDEN.json RUN.h5 GRADIENTS.h5")
    with open(sys.argv[1], encoding="utf-8") as file:
        golden = json.load(file)
    results = []
    with h5py.File(sys.argv[2], "r") as run:
        for name in ("loss", "grad_norm", "balance_loss", "z_loss"):
            if (name in golden) != (name in run["iterations"]):
                results.append((np.inf, f"{name}: missing, or not expected"))
            elif name in golden:
                results.append(
                    compare_steps(name, golden[name], run["iterations/" + name][:]))
        results.append(compare_accuracy(golden.get("accuracy"), run))
        results.append(compare_experts(golden.get("experts"), run))
    with h5py.File(sys.argv[3], "r") as gradients:
        results.append(compare_gradients(golden["gradients"], gradients))
    failed = False
    for difference, text in results:
        good = difference <= TOLERANCE  # false for a NaN
        failed = failed or not good
        print(f"{'ok  ' if good else 'FAIL'} {text} (relative {difference:.2e}, "
              f"allowed {TOLERANCE:.0e})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
