"""The command line: python3 -m analysis COMMAND FILES, or from elsewhere python3 FOLDER/analysis."""

import argparse
import ast
import importlib
import os
import sys

EXIT_INPUT = 2  # bad usage, or a bad or missing file

PACKAGE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(PACKAGE, "commands")


def commands():
    """Returns the names of the commands, each a module, with their line of help."""
    names = sorted(name.removesuffix(".py") for name in os.listdir(FOLDER)
                   if name.endswith(".py") and not name.startswith("_"))
    return {name: help_line(name) for name in names}


def help_line(name):
    """Returns HELP of a command without its imports, since those of all commands take seconds."""
    with open(os.path.join(FOLDER, f"{name}.py"), encoding="utf-8") as file:
        for statement in ast.parse(file.read()).body:
            if isinstance(statement, ast.Assign) and statement.targets[0].id == "HELP":
                return ast.literal_eval(statement.value)
    raise LookupError(f"analysis/commands/{name}.py has no HELP")


def overview():
    known = commands()
    width = max(map(len, known))
    lines = [f"  {name:{width}}  {text}" for name, text in known.items()]
    return ("usage: python3 -m analysis COMMAND FILES [options]\n\n"
            "Reads the timing files of hidup's runs, also while they are written and after a kill.\n\n"
            "commands:\n" + "\n".join(lines) + "\n\npython3 -m analysis COMMAND --help: its options\n")


def parse(name, words):
    module = importlib.import_module(f"analysis.commands.{name}")
    parser = argparse.ArgumentParser(prog=f"analysis {name}", description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    return module, parser.parse_args(words)


def usage_error(message):
    print(f"analysis: error: {message}\n{overview()}", file=sys.stderr, end="")
    return EXIT_INPUT


def main(words):
    if not words:
        return usage_error("which command?")
    name = words[0]
    if name in ("-h", "--help"):
        print(overview(), end="")
        return 0
    if name not in commands():
        return usage_error(f"no command {name}")
    try:
        module, arguments = parse(name, words[1:])
        return module.run(arguments) or 0
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = None
        return 0
    except ModuleNotFoundError as error:
        from analysis import find_python
        find_python.that_has(error.name)
    except (OSError, KeyError, ValueError) as error:
        message = error.args[0] if isinstance(error, KeyError) else error
    print(f"analysis {name}: error: {message}", file=sys.stderr)
    return EXIT_INPUT


if __name__ == "__main__":
    if not __package__:  # run as a folder, which then is the place of modules
        sys.path[0] = os.path.dirname(PACKAGE)
    sys.exit(main(sys.argv[1:]))
