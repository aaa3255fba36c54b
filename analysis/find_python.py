"""Finds a Python with the modules that a script imports: the running one, or Debian's."""

import os
import sys

DEBIAN = "/usr/bin/python3"  # jobs/install.sh installs for it; PATH may have another one first


def that_has(module):
    """Starts the program again under Debian's Python, after a module could not be imported. If that one is
    already running, or missing, prints what to install and exits with 2."""
    if sys.prefix != "/usr" and os.access(DEBIAN, os.X_OK):
        sys.stdout.flush()
        os.execv(DEBIAN, [DEBIAN, *sys.orig_argv[1:]])
    print(f"{sys.executable} has no module {module}; Debian's package is "
          f"python3-{module}, for {DEBIAN}", file=sys.stderr)
    sys.exit(2)
