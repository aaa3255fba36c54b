"""Runs the scripts of analysis, whose folder is in sys.path."""

import contextlib
import importlib.util
import io
import runpy
import sys
import types
import unittest.mock


def script(name, *arguments):
    """What a script prints and exits with; in this process, which has its libraries loaded."""
    path = importlib.util.find_spec(name.removesuffix(".py")).origin
    stdout, stderr, returncode = io.StringIO(), io.StringIO(), 0
    with (contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr),
          unittest.mock.patch.object(sys, "argv", [name, *arguments])):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            returncode = end.code
    return types.SimpleNamespace(returncode=returncode, stdout=stdout.getvalue(),
                                 stderr=stderr.getvalue())
