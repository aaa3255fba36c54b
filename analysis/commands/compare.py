"""Compares two runs: their losses by step, or their gradients by parameter.

    compare losses A.h5 B.h5          timing files
    compare gradients A.h5 B.h5       files of --dump-gradients

Runs of the same deck are equal up to rounding, whatever their ranks and strategies. This checks
it, with the tolerances of the project's own tests, which are for fp32. The relative error of
a step is |a - b| / |a|, that of a tensor max |a - b| / max |a|. Of the losses only the first steps
decide: every step amplifies the rounding of those before, and the losses of long runs part, as those
of two seeds do. Prints the worst ones; exit code 1 beyond the tolerance, or when the files do not
hold the same steps or parameters.
"""

import numpy

from analysis import hidup_timings

HELP = "losses or gradients of two runs: equal up to rounding?"

RTOL = {"losses": 2e-5, "gradients": 1e-4}


def relative_error(a, b):
    """Returns max |a - b| / max |a|; infinite where either has a value that is not finite."""
    a, b = numpy.asarray(a, dtype=float), numpy.asarray(b, dtype=float)
    if not (numpy.isfinite(a).all() and numpy.isfinite(b).all()):
        return float("inf")
    difference = numpy.abs(a - b).max(initial=0.0)
    scale = numpy.abs(a).max(initial=0.0)
    if difference == 0.0:
        return 0.0
    return difference / scale if scale > 0.0 else float("inf")


def load_losses(path, steps):
    losses = hidup_timings.read(path)["loss"]
    return {f"step {step}": loss for step, loss in losses.items() if step <= steps}


def load_gradients(path, _):
    with hidup_timings.open_file(path) as file:
        tensors = {name: data[()] for name, data in file.items()}
        tensors["loss"] = file.attrs["loss"]
        return tensors


def compare(a, b, rtol, shown):
    """Prints the worst entries of two dictionaries of arrays; returns True if they agree."""
    agree = True
    for name in sorted(a.keys() ^ b.keys()):
        print(f"{name}: only in the {'first' if name in a else 'second'} file")
        agree = False
    errors = {}
    for name in a.keys() & b.keys():
        if numpy.shape(a[name]) != numpy.shape(b[name]):
            print(f"{name}: shape {numpy.shape(a[name])} in the first file, "
                  f"{numpy.shape(b[name])} in the second")
            agree = False
        else:
            errors[name] = relative_error(a[name], b[name])
    worst = sorted(errors, key=lambda name: (-errors[name], name))
    for name in worst[:shown]:
        print(f"{errors[name]:10.3e}  {name}")
    if not errors:
        print("nothing to compare")
        return False
    within = errors[worst[0]] <= rtol
    print(f"{len(errors)} compared, worst relative error {errors[worst[0]]:.3e}, "
          f"{'within' if within else 'beyond'} {rtol:g}")
    return agree and within


def add_arguments(parser):
    parser.add_argument("what", choices=("losses", "gradients"))
    parser.add_argument("first", metavar="A.h5")
    parser.add_argument("second", metavar="B.h5")
    parser.add_argument("--rtol", type=float,
                        help="largest relative error that passes (default: "
                        f"{RTOL['losses']:g} of losses, {RTOL['gradients']:g} of gradients)")
    parser.add_argument("--steps", type=int, default=20,
                        help="how many of the first steps are compared (default: %(default)d)")
    parser.add_argument("--shown", type=int, default=10,
                        help="how many of the worst are printed (default: %(default)d)")


def run(arguments):
    load = load_losses if arguments.what == "losses" else load_gradients
    rtol = RTOL[arguments.what] if arguments.rtol is None else arguments.rtol
    agree = compare(load(arguments.first, arguments.steps), load(arguments.second, arguments.steps),
                    rtol, arguments.shown)
    return 0 if agree else 1
