"""The files that a rehearsal starts from: the decks and the strategy of the real plan."""

import re
import sys

RATE = re.compile(r"\b(flops|flops_16bit|memory_bandwidth): *([^\s,}]+)")


def refuse(text):
    print(f"rehearse: {text}", file=sys.stderr)
    sys.exit(2)


def warn(text):
    print(f"rehearse: warning: {text}", file=sys.stderr)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Decks:
    """The keys of both decks as written there, overridden by those of the command line."""

    def __init__(self, deck, cluster_path, settings):
        self.text = re.sub(r"#.*", "", read(deck))
        self.settings = dict(setting.partition("=")[::2] for setting in settings)
        cluster = re.sub(r"#.*", "", read(cluster_path))
        before, _, mesh = cluster.partition("mesh:")
        self.rates = dict(re.findall(RATE, before))
        for key in ("flops", "flops_16bit", "memory_bandwidth"):
            if f"cluster.device.{key}" in self.settings:
                self.rates[key] = self.settings[f"cluster.device.{key}"]
        devices = re.search(r"\bdevices: *(\[[^\]]*\])?", before)
        self.devices = self.settings.get("cluster.devices", devices and devices[1])
        if devices and not self.devices:
            refuse(f"{cluster_path}: cluster.devices has to be a list in brackets, [{{...}}]")
        self.efficiency = self.settings.get("cluster.device.efficiency", before)
        names = re.findall(r"\bname: *([\w-]+)", mesh)
        axes = re.split(r"\bname:", mesh)[1:]
        self.axes = {name: dict(re.findall(r"(\w+): *([^\s,}]+)", axis))
                     for name, axis in zip(names, axes)}
        for key, value in self.settings.items():
            axis = re.fullmatch(r"cluster\.mesh\.([\w-]+)\.(\w+)", key)
            if axis and axis[1] in self.axes:
                self.axes[axis[1]][axis[2]] = value

    def model(self, key, default=None):
        """Returns the value of a key of the model or the data; keys of one name are alike in both."""
        for section in ("model", "model.moe", "data", "train"):
            if f"{section}.{key}" in self.settings:
                return self.settings[f"{section}.{key}"]
        found = re.search(rf"^[^\n]*\b{key}: *([^\s,}}]+)", self.text, re.M)
        return found[1] if found else default

    def share(self):
        """Returns the part of the rated flops that the model's largest products reach."""
        precision = self.model("precision", "fp32")
        others = [] if precision == "fp32" else ["bf16", "fp16"]
        items = [dict(re.findall(r"(\w+): *([\w.]+)", item))
                 for item in re.findall(r"\{([^}]*\bshare:[^}]*)\}", self.efficiency)]
        for name in (precision, *others, "any"):
            shares = [(int(item.get("size", 0)), item["share"]) for item in items
                      if item.get("precision", "any") == name]
            if shares:
                return max(shares)[1]
        return None

    def number(self, key, default):
        value = self.model(key)
        return int(value) if value and value.isdecimal() else default


def scaled(quantity, factor):
    """Returns "25GB/s" and the like times a number."""
    number, unit = re.fullmatch(r"([\d.e+-]+?)([A-Za-z].*)", quantity).groups()
    return f"{float(number) * factor:.9g}{unit}"


class Plan:
    """A strategy file."""

    def __init__(self, path):
        self.text = read(path)
        self.mesh = {name: int(size) for name, size in re.findall(
            r"^  - \{name: ([\w-]+), size: (\d+)\}", self.text, re.M)}
        self.head = dict(re.findall(r"^(microbatches|gradients|accumulate): (\S+)", self.text, re.M))
        self.operations = self.entries("op", ("rule", "recompute"))
        self.parameters = self.entries("name", ("storage", "optimizer_state", "reshard_after_forward", "kept"))
        shares = re.search(r"^shares:\n(?:[ -].*\n)+", self.text, re.M)
        self.shares = shares[0] if shares else ""
        self.has_schedule = re.search(r"^schedule:", self.text, re.M) is not None

    def entries(self, key, wanted):
        """Returns {name: {key: value}}; a list, one value per axis, as a list."""
        entries = {}
        for name, rest in re.findall(rf"^  - \{{{key}: ([^\s,]+), (.*)\}}$", self.text, re.M):
            values = re.findall(r"(\w+): (\[[^\]]*\]|[^\s,\[]+)", rest)
            entries[name] = {name: value[1:-1].split(", ") if value.startswith("[") else value
                             for name, value in values if name in wanted}
        return entries
