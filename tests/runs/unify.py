#!/usr/bin/env python3
"""Combines sources in few files, for a checker that spends its time on headers.

    unify.py BUILD OUT <SOURCES    (NUL between the names)

Sources of one folder that the build BUILD compiles alike, with the same macros, become one file of
OUT that includes them, with a compile_commands.json beside it. Prints the files' names, the longest
first, NUL after each.
"""

import collections
import json
import pathlib
import re
import sys

FILES = 24  # limited by memory
# Unused names of this kind are found only in a separate file.
ALIAS = re.compile(r"^(using [\w:]+::\w+;|namespace \w+ =)", re.MULTILINE)


def commands(build):
    """Returns each source's compile command without its names; equal ones can be combined."""
    result = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        bare = re.sub(r" -o \S+ -c \S+$", "", entry["command"])
        bare = re.sub(r" -Winvalid-pch -include \S+", "", bare)  # GCC's: each source has its headers
        path = pathlib.Path(entry["file"])
        names = [path]
        if path.parent.name == "Unity":
            names = re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)
        for name in names:
            result[pathlib.Path(name).resolve()] = (entry["directory"], bare)
    return result


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    sources = [pathlib.Path(name).resolve() for name in sys.stdin.read().split("\0") if name]
    known = commands(build)
    unknown = [str(source) for source in sources if source not in known]
    if unknown:
        sys.exit(f"unify.py: {build} does not compile {', '.join(unknown)}")
    groups = collections.defaultdict(list)
    for source in sources:
        alone = source.name if ALIAS.search(source.read_text()) else ""
        groups[(source.parent.name, alone, *known[source])].append(source)

    out.mkdir(parents=True, exist_ok=True)
    entries, sizes = [], {}
    for (folder, _, directory, command), members in groups.items():
        parts = -(-len(members) // FILES)
        for part in range(parts):
            chosen = members[part::parts]
            # clang's analyzer enters included sources only if the name has this word.
            path = out / f"UnifiedSource_{folder}_{len(entries)}.cpp"
            path.write_text("".join(f'#include "{name}"  // NOLINT(bugprone-suspicious-include)\n'
                                    for name in chosen))
            entries.append({"directory": directory, "file": str(path),
                            "command": f"{command} -c {path}"})
            sizes[str(path)] = sum(name.stat().st_size for name in chosen)
    (out / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    for path in sorted(sizes, key=sizes.get, reverse=True):
        sys.stdout.write(path + "\0")


if __name__ == "__main__":
    main()
