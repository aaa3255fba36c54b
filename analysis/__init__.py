"""Analyses of hidup's runs: `python3 -m analysis COMMAND FILES` from the repository's root.

A command is a module of analysis/commands with
    HELP                    one line for the list of commands
    add_arguments(parser)   adds its arguments to an argparse parser
    run(arguments)          does the work, returns the exit code (None: 0)
Its docstring is the text of its --help. Bad input is an OSError, KeyError or ValueError whose message
names the file; the user sees that message and exit code 2.
hidup_timings reads timing files, busy computes busy times, figures draws and saves.
"""
