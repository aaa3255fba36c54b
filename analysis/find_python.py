"""Finds a Python that has what a script imports: the one that runs it, or Debian's."""

import os
import sys

DEBIAN = "/usr/bin/python3"  # jobs/install.sh installs for it; another one may be first in PATH


def that_has(module):
    """For a module that could not be imported: starts the program again under Debian's Python. Where
    that runs already, or there is none, prints what to install and ends with 2."""
    if sys.prefix != "/usr" and os.access(DEBIAN, os.X_OK):
        sys.stdout.flush()
        os.execv(DEBIAN, [DEBIAN, *sys.orig_argv[1:]])
    print(f"{sys.executable} has no module {module}; Debian's package is "
          f"python3-{module}, for {DEBIAN}", file=sys.stderr)
    sys.exit(2)
