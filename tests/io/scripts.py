"""Runs the commands of analysis, whose folder's parent is in sys.path."""

import contextlib
import io
import types


def script(*words):
    """Runs a command in this process, which has its libraries loaded; returns its output and exit code."""
    from analysis.__main__ import main
    stdout, stderr, returncode = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            returncode = main(list(words))
        except SystemExit as end:  # of argparse
            returncode = end.code
    return types.SimpleNamespace(returncode=returncode, stdout=stdout.getvalue(),
                                 stderr=stderr.getvalue())
