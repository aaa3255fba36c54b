"""The decks' keys, from `hidup validate --keys`, with values at both ends of their ranges, just beyond them,
and of other kinds."""

import re
import typing

from mutate import NUMBERS, UNITS, WORDS


class Key(typing.NamedTuple):
    name: str  # such as model.layers
    allowed: str  # such as "an integer from 1 to 10000"


def parse_reference(markdown):
    rows = re.findall(r"^\| `([^`]+)` \| .*? \| (.*?) \| ", markdown, re.M)
    return [Key(*row) for row in rows]


def around(number):
    """Returns a whole number and its neighbours."""
    return [str(number + step) for step in (-1, 0, 1)]


def integers(allowed):
    ends = [int(end) for end in re.findall(r"-?\d+", allowed)]
    values = [value for end in ends for value in around(end)]
    return values + ["2", "3", "5", "12", "1e3", "1.5"]


def amounts(allowed, unit):
    ends = re.findall(r"(?:from|to|below|above|at most) ([\d.e+-]+)([A-Za-z]*)", allowed)
    values = [number + suffix for number, suffix in ends]
    values += [f"{sign}{number}{suffix or unit}" for number, suffix in ends
               for sign in ("", "-")]
    return values + [number + unit for number in ("0.5", "1", "33", "1e3", "1e9", "1e15", "1e30",
                                                  "1e308", "1e-9", "1e-320", "0")]


def typical_values(key):
    """Returns values of the key's kind, within and beyond its range."""
    allowed = key.allowed
    if allowed.startswith("an integer"):
        values = integers(allowed)
    elif allowed.startswith("a number"):
        values = amounts(allowed, "")
    elif allowed.startswith("an amount"):
        values = amounts(allowed, "MiB") + amounts(allowed, "TiB")
    elif allowed.startswith("a rate"):
        values = amounts(allowed, "GFLOPS") + amounts(allowed, "MFLOPS")
    elif allowed.startswith("a bandwidth"):
        values = amounts(allowed, "GB/s") + amounts(allowed, "kbps")
    elif allowed.startswith("a time"):
        values = amounts(allowed, "s") + amounts(allowed, "us")
    elif allowed.startswith("one of"):
        values = re.split(r", ", allowed.removeprefix("one of "))
    elif allowed.startswith("a file"):
        values = ["none", "auto", "missing", ".", "text.txt", "*", "model.yaml", "[]",
                  "cluster.yaml", "[text.txt, text.txt]", "graph.txt", "profile.yaml", "/dev/null",
                  "tokens.bin"]
    else:
        values = ["a", "ranks", "x-1", "9a", "a b"]
    return values + ["auto"] * ("or auto" in allowed)


def inner_value(rng, key):
    """Returns a number between the ends of a range, mostly near the lower one."""
    ends = re.search(r"from (\d+)([A-Za-z]*) to (?:below )?([\d.e+]+)([A-Za-z]*)", key.allowed)
    if not ends or ends[2] != ends[4]:
        return rng.choice(typical_values(key))
    low, high = float(ends[1]), min(float(ends[3]), 1e6)
    value = low + (high - low) ** rng.random() - 1 if high - low > 1 else rng.uniform(low, high)
    return f"{value:.0f}{ends[2]}" if key.allowed.startswith("an integer") else f"{value}{ends[2]}"


def value_for(rng, key):
    if key.allowed == "a list of axes":
        return mesh_value(rng)
    if key.allowed == "a list of devices":
        return devices_value(rng)
    kind = rng.random()
    if kind < 0.35:
        return inner_value(rng, key)
    if kind < 0.85:
        return rng.choice(typical_values(key))
    if kind < 0.95:
        return rng.choice(NUMBERS) + rng.choice(UNITS)
    return rng.choice(WORDS)


def mesh_value(rng):
    """Returns axes, mostly few and small."""
    count = rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 8))
    axes = []
    for number in range(count):
        size = rng.choice(("auto", "1", "2", "2", "3", "4", "8", "8", "5", "0", "1000000"))
        axis = f"name: {rng.choice(('a', 'b', 'node')) if rng.random() < 0.1 else f'x{number}'}"
        axis += f", size: {size if rng.random() < 0.95 else rng.choice(NUMBERS)}"
        if rng.random() < 0.8:
            axis += f", bandwidth: {rng.choice(('1', '10', '100', '1e308', '1e-320', '1e-9'))}GB/s"
        if rng.random() < 0.4:
            axis += f", latency: {rng.choice(('0us', '30us', '1s', '1h', '-1s', '1e-320s'))}"
        if rng.random() < 0.2:
            axis += f", shared: {rng.choice(('1', '2', '4', '0', '1e3'))}"
        if rng.random() < 0.2:
            axis += f", bandwidth_trace: {trace_value(rng)}"
        axes.append("{" + axis + "}")
    return "[" + ", ".join(axes) + "]"


def trace_value(rng):
    """Returns a link's bandwidths over time."""
    phases = [f"{{for: {rng.choice(('1us', '10ms', '1h', '0s', '1e-320s'))}, "
              f"bandwidth: {rng.choice(('1', '10', '1e-320', '1e9'))}GB/s}}"
              for _ in range(rng.choice((0, 1, 2, 5)))]
    return "[" + ", ".join(phases) + "]"


def devices_value(rng):
    """Returns devices, mostly few."""
    devices = [f"{{count: {rng.choice(('1', '1', '2', '3', '0', '1000000'))}, "
               f"flops: {rng.choice(('1', '5', '1e-9', '1e300'))}TFLOPS}}"
               for _ in range(rng.choice((0, 1, 2, 2, 3)))]
    return "[" + ", ".join(devices) + "]"


def random_settings(rng, keys):
    """Returns arguments --set of random keys; rarely of an unknown key."""
    arguments = []
    for _ in range(rng.choices((1, 2, 3, 6), (12, 3, 2, 1))[0]):
        key = rng.choice(keys)
        name = key.name
        if rng.random() < 0.03:
            name = rng.choice((name + "x", name.split(".")[0], "", ".", name + ".a", name.upper()))
        setting = f"{name}={value_for(rng, key)}"
        if rng.random() < 0.02:
            setting = rng.choice((setting.replace("=", ""), setting + "\x1b[1m", "=", setting * 50))
        arguments += ["--set", setting]
    return arguments
