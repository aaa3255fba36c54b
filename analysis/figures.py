"""Shared by all figures: their style, colours and names, and the number of points that they draw.

    figure, axes = figures.new(rows=2)
    figures.legend(axes)
    figures.save(figure, arguments.out)    # OUT.png and OUT.svg; prints their names
"""

import argparse
import io
import os
import re
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the back end)
import numpy  # noqa: E402
from matplotlib.backend_bases import FigureCanvasBase  # noqa: E402
from matplotlib.ticker import LogFormatter  # noqa: E402

# Okabe and Ito (2008): distinct with any kind of colour vision. Yellow is left out as too pale for lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
# The same meaning has the same colour in all figures.
COMPUTE, HIDDEN, EXPOSED, IDLE, WALL = "#0072b2", "#56b4e9", "#d55e00", "#d0d0d0", "#000000"
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")

MOST_POINTS = 4000  # of a line; more are invisible, and make large files

STYLE = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
         "grid.alpha": 0.25, "axes.axisbelow": True, "legend.frameon": False, "lines.linewidth": 1.4,
         "hatch.linewidth": 0.6, "figure.dpi": 150,
         "svg.hashsalt": "hidup",  # the same figure is the same file
         "text.parse_math": False}  # names in files may have a $


def style(**changes):
    """Sets the style with these changes; new() sets it without."""
    plt.rcParams.update({**STYLE, **changes})
    warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may have any script


def new(rows=1, columns=1, size=(9, 4.5), **options):
    """Returns a figure and its axes as plt.subplots() does, with room for legends outside of the axes."""
    style()
    return plt.subplots(rows, columns, figsize=size, layout="constrained", **options)


def style_of(number):
    """Returns colour, marker and kind of line of the number-th curve: different for 7 * 4 curves."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)],
            "linestyle": LINES[number % len(LINES)]}


class PlainLogFormatter(LogFormatter):
    """Labels such as 0.05, since matplotlib's are formulas, which STYLE switches off."""

    def _num_to_string(self, x, vmin, vmax):
        return f"{x:g}"


def logarithmic(axes, which):
    """Makes the axis "x" or "y" (or both, "xy") logarithmic; use this, not set_xscale()."""
    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axes.grid(visible=True, which="minor", axis=name, alpha=0.12)
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(PlainLogFormatter())
        axis.set_minor_formatter(PlainLogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.4)))


def legend(axes, **options):
    """Draws and returns the legend, right of the axes."""
    return axes.legend(**{"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0,
                          "fontsize": "small", **options})


def thinned(x, y, most=MOST_POINTS):
    """Returns at most `most` points (x, y) of a curve; thinning() has the text about it.

    Beyond `most`, only the least and the greatest value of every stretch of equally many points stay,
    at their places, so outliers do. NaN stays where a whole stretch has nothing else.
    """
    x, y = numpy.asarray(x), numpy.asarray(y, dtype=float)
    if len(x) <= most:
        return x, y
    stretch, kept = stretch_of(len(x), most), []
    for begin in range(0, len(x), stretch):
        part = y[begin:begin + stretch]
        if numpy.isnan(part).all():
            kept.append(begin)
        else:
            kept += sorted({begin + numpy.nanargmin(part), begin + numpy.nanargmax(part)})
    return x[kept], y[kept]


def stretch_of(points, most=MOST_POINTS):
    """Returns the number of a curve's points that two of thinned() stand for."""
    return -(-2 * points // most)


def thinning(steps):
    """Returns the text about curves of so many steps, for the label of their axis."""
    if steps <= MOST_POINTS:
        return ""
    return f"of every {stretch_of(steps)} steps, the least and the greatest value are drawn"


def add_out(parser):
    """Adds the option -o of commands that draw; its value is a path without .png and .svg, or None."""
    parser.add_argument("-o", "--out", type=_stem, metavar="NAME",
                        help="writes NAME.png and NAME.svg; default: beside the first file")


def _stem(text):
    stem, ending = os.path.splitext(text)
    if ending.lower() in (".png", ".svg"):
        return stem
    if ending.lstrip(".").lower() in FigureCanvasBase.get_supported_filetypes():
        raise argparse.ArgumentTypeError(f"{text}: figures are written as PNG and SVG")
    return text


def default_name(paths, what):
    """Returns the name of a figure of these files without ending: beside the first one."""
    if len(paths) == 1:
        return f"{os.path.splitext(paths[0])[0]}-{what}"
    return os.path.join(os.path.dirname(paths[0]), what)


def save(figure, out):
    """Writes OUT.png and OUT.svg; prints and returns their names."""
    names = [f"{out}.png", f"{out}.svg"]
    for name in names:
        figure.savefig(name, metadata={"Date": None} if name.endswith(".svg") else None)
        figure.set_layout_engine("none")  # freezes the layout, which saves time
        print(name)
    plt.close(figure)
    return names


def inline_svg(figure, name):
    """Returns the figure as SVG text for an HTML page; `name` begins its ids, as a page has several."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = file.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)
