"""Reads hidup's timing files, also while they are written and after a kill.

    import hidup_timings
    frame = hidup_timings.read("out/quickstart.h5")         # one row per step
    frame[["loss", "wall_s", "compute_s_mean", "comm_s_max"]]
    program = hidup_timings.read_table("out/quickstart.h5", "program")
    strategy = hidup_timings.read_strategy("out/quickstart.h5")["text"]
    loads = hidup_timings.read_experts("out/quickstart.h5")  # of a model with experts
    loads["dropped"].sum() / loads["tokens"].sum()

Needs h5py and pandas. Units are those of the datasets' attribute `unit`:
seconds, bytes, tokens, nats.
"""

import os
import sys

import h5py
import pandas

EXIT_FILE = 6  # bad or missing file, as hidup's own exit codes have it


def open_file(path):
    """The open h5py.File; the writer may go on writing."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return h5py.File(path, "r", swmr=True)
    except OSError as error:
        raise OSError(f"{path}: not a readable HDF5 file, or one being created ({error})") from error


def read(path):
    """A data frame by step: /iterations, and mean and maximum over the ranks of /ranks.

    A step whose row is not complete yet is left out.
    """
    with open_file(path) as file:
        columns = {name: data[:] for name, data in file["iterations"].items()}
        for name in ("compute_s", "comm_s", "exposed_comm_s"):
            spans = file["ranks"][name][:]
            columns[f"{name}_mean"] = spans.mean(axis=1)
            columns[f"{name}_max"] = spans.max(axis=1)
    rows = min(len(values) for values in columns.values())
    return pandas.DataFrame({k: v[:rows] for k, v in columns.items()}).set_index("step")


def read_spans(path):
    """Arrays [steps, ranks] by name: compute_s, comm_s, exposed_comm_s; steps as in read()."""
    with open_file(path) as file:
        names = ("compute_s", "comm_s", "exposed_comm_s")
        spans = {name: file["ranks"][name][:] for name in names}
    rows = min(len(values) for values in spans.values())
    return {name: values[:rows] for name, values in spans.items()}


def read_experts(path):
    """The load of every expert in every step: a data frame by (step, layer, expert).

    Columns: tokens, how many chose the expert; dropped, how many of these found no slot.
    Layers are those with experts, numbered from 0. A step whose row is not complete yet is left
    out. Raises KeyError if the model has no experts.
    """
    with open_file(path) as file:
        if "experts" not in file:
            raise KeyError(f"{path}: the model has no experts")
        columns = {name: file["experts"][name][:] for name in ("tokens", "dropped")}
        steps = file["iterations/step"][:]
    rows = min(len(steps), *(len(values) for values in columns.values()))
    _, layers, experts = columns["tokens"].shape
    index = pandas.MultiIndex.from_product([steps[:rows], range(layers), range(experts)],
                                           names=["step", "layer", "expert"])
    return pandas.DataFrame({k: v[:rows].ravel() for k, v in columns.items()}, index=index)


def read_table(path, group):
    """The equally long columns of a group, "program" or "timeline", as a data frame."""
    with open_file(path) as file:
        columns = {}
        for name, data in file[group].items():
            if data.ndim == 1:
                columns[name] = data.asstr()[:] if h5py.check_string_dtype(data.dtype) else data[:]
    rows = min(len(values) for values in columns.values())
    return pandas.DataFrame({k: v[:rows] for k, v in columns.items()})


def read_strategy(path):
    """The strategy's text and attributes (name, hash, ...) as a dictionary."""
    with open_file(path) as file:
        return {"text": file["strategy/text"].asstr()[()], **file["strategy"].attrs}


def read_attributes(path):
    """The root attributes as a dictionary."""
    with open_file(path) as file:
        return dict(file.attrs)


def run_script(main):
    """Runs a script's main(); a bad or missing file becomes one line and an exit code."""
    try:
        sys.exit(main())
    except (OSError, KeyError) as error:
        message = error.args[0] if isinstance(error, KeyError) else error
        print(f"{os.path.basename(sys.argv[0])}: error: {message}", file=sys.stderr)
        sys.exit(EXIT_FILE)
