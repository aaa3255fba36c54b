"""Writes kernels/ESTIMATES.md: expected times of every kernel and of the steps of three models on an
H100, from the tables that the compiler, the disassembler and the stand-in's counters made.

    python3 tests/bench/estimates [--hidup build/hidup] [--check]

--check compares instead: exit code 1 and the differing lines.
"""

import argparse
import difflib
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tests" / "runs"))

import report  # noqa: E402

FILE = SOURCE / "kernels" / "ESTIMATES.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--hidup", type=pathlib.Path, default=SOURCE / "build" / "hidup")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = report.text(arguments.hidup.resolve(), SOURCE)
    if not arguments.check:
        FILE.write_text(text, encoding="utf-8")
        return 0
    there = FILE.read_text(encoding="utf-8")
    differ = list(difflib.unified_diff(there.splitlines(), text.splitlines(), FILE.name,
                                       "made anew", lineterm="", n=0))
    for line in differ:
        print(line)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
