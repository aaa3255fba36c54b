"""Values of resolved decks and rates of profiles, as far as the analysis needs them.

hidup wrote both files, so reading lines suffices and no YAML library is needed.
"""

import re

POWERS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def value(resolved, key):
    """Returns the text of a key such as "train.steps" in a resolved deck; None if it is missing."""
    stack = []
    for line in resolved.splitlines():
        match = re.match(r"( *)(\w+):(?: (.*))?$", line)
        if match:
            depth = len(match[1]) // 2
            stack[depth:] = [match[2]]
            if ".".join(stack) == key:
                return match[3]
    return None


def quantity(text):
    """Returns the number in "0.1TFLOPS", "10GB/s" or "9.71Gbps" (as bytes); None for "auto" and the like."""
    match = re.fullmatch(r"([\d.e+-]+)([kMGTP]?)(FLOPS|B/s|bps)", text or "")
    if not match:
        return None
    try:
        number = float(match[1])
    except ValueError:
        return None
    return number * POWERS[match[2]] / (8 if match[3] == "bps" else 1)


def profile_rates(path):
    """Returns the best flops per second and bytes per second of the operations in a profile."""
    with open(path, encoding="utf-8") as file:
        rows = re.findall(r"flops: ([\d.e+]+), bytes: ([\d.e+]+), seconds: ([\d.e+-]+)", file.read())
    rates = [(float(flops) / float(s), float(size) / float(s))
             for flops, size, s in rows if float(s) > 0]
    if not rates:
        raise OSError(f"{path}: not a profile of hidup: no operations with flops, bytes and seconds")
    return max(flops for flops, _ in rates), max(size for _, size in rates)
