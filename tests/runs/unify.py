#!/usr/bin/env python3
"""Combines sources in few files, for a checker that spends its time on headers.

    unify.py BUILD OUT <SOURCES    (NUL between the names)

Sources that the build BUILD compiles alike become one file of OUT that includes them, with a
compile_commands.json beside it. It has the include folders and macros of all of them: whether a folder may
include another one is checked by the build. Sources that define the same name are put in different files.
Prints the files' names, the longest first, NUL after each.
"""

import collections
import functools
import json
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES = 280_000  # of sources in one file; limited by memory: the checker takes a gigabyte for such a file
COMBINED = re.compile(r"-[ID]|-isystem|-O|-fopenmp$")  # options that do not keep sources apart
# clang-format puts what a namespace has at the beginning of a line. Functions of one name differ by their first
# parameter's type.
DEFINED = re.compile(r"^(?:(?:struct|class|enum class|enum|union|using)\s+(\w+\b)(?!::)"
                     r"|(?:[\w:<>,*&\[\]]+ )+[*&]*(\w+(?:\((?:const )?[\w:<>]*|\[| =|;|\{)))", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace \w+ =.*$", re.MULTILINE)  # has the same meaning everywhere
INCLUDE = re.compile(r'^#include "(.*)"', re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union|using) (\w+) [^;]*[{=]", re.MULTILINE)
OWN = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)


def options(command):
    """Returns the options of a compile command without its names: those that sources must share, and the
    others."""
    shared, own = [], []
    words = iter(shlex.split(command))
    for word in words:
        if word in ("-o", "-c", "-include"):  # a header that GCC compiled is not for others
            next(words)
        elif word == "-isystem":
            own.append((word, next(words)))
        elif word != "-Winvalid-pch":
            (own if COMBINED.match(word) else shared).append((word,))
    return tuple(shared), own


def commands(build):
    """Returns each source's folder and options()."""
    result = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        names = [path]
        if path.parent.name == "Unity":
            names = INCLUDE.findall(path.read_text())
        for name in names:
            result[pathlib.Path(name).resolve()] = (entry["directory"], *options(entry["command"]))
    return result


@functools.cache
def included(path):
    """Returns the project's headers that a file includes, without those that they include."""
    places = (path.parent, ROOT / "src", ROOT)
    found = (next((place / name for place in places if (place / name).exists()), None)
             for name in INCLUDE.findall(path.read_text()))
    return [header for header in found if header]


@functools.cache
def defined(path):
    """Returns the names that a file defines outside functions and classes: all, and those for itself."""
    text = NAMESPACE.sub("", path.read_text())
    every, own = ({one or other for part in parts for one, other in DEFINED.findall(part)}
                  for parts in ([text], OWN.findall(text)))
    return every, own


@functools.cache
def seen(source):
    """Returns the names that a source and all its headers define, and the file of every type."""
    files, names, types = [source], set(), {}
    for path in files:
        names |= defined(path)[0]
        types |= dict.fromkeys(TYPE.findall(path.read_text()), path)
        files += [header for header in included(path) if header not in files]
    return names, types


class Part:
    """Sources that become one file."""

    def __init__(self):
        self.sources, self.seen, self.types, self.own, self.bytes = [], set(), {}, set(), 0

    def takes(self, source):
        names, types = seen(source)
        return (not names & self.own and not defined(source)[1] & self.seen and
                all(self.types.get(name, path) == path for name, path in types.items()))

    def add(self, source):
        names, types = seen(source)
        self.sources.append(source)
        self.seen |= names
        self.types |= types
        self.own |= defined(source)[1]
        self.bytes += source.stat().st_size


def divided(sources):
    """Returns parts of about equal size. Neighbours stay together, as they include the same headers, except
    where names differ in meaning."""
    sizes = {source: source.stat().st_size for source in sources}
    total, before = sum(sizes.values()), 0
    parts = [Part() for _ in range(-(-total // BYTES))]
    for source, size in sizes.items():
        wanted = before * len(parts) // total
        before += size
        order = [parts[wanted], *sorted(parts, key=lambda part: part.bytes)]
        part = next((part for part in order if part.takes(source)), None)
        if part is None:
            parts.append(part := Part())
        part.add(source)
    return parts


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    sources = [pathlib.Path(name).resolve() for name in sys.stdin.read().split("\0") if name]
    known = commands(build)
    unknown = [str(source) for source in sources if source not in known]
    if unknown:
        sys.exit(f"unify.py: {build} does not compile {', '.join(unknown)}")
    groups = collections.defaultdict(list)
    for source in sources:
        groups[known[source][:2]].append(source)
    groups = {key: divided(members) for key, members in groups.items()}

    out.mkdir(parents=True, exist_ok=True)
    entries, sizes = [], {}
    for (directory, shared), parts in groups.items():
        for part in parts:
            # clang's analyzer enters included sources only if the name has this word.
            path = out / f"UnifiedSource_{len(entries)}.cpp"
            path.write_text("".join(f'#include "{name}"  // NOLINT(bugprone-suspicious-include)\n'
                                    for name in part.sources))
            own = dict.fromkeys(option for name in part.sources for option in known[name][2])
            words = [word for option in (*shared, *own) for word in option]
            entries.append({"directory": directory, "file": str(path),
                            "command": f"{shlex.join(words)} -c {path}"})
            sizes[str(path)] = part.bytes
    (out / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    for path in sorted(sizes, key=sizes.get, reverse=True):
        sys.stdout.write(path + "\0")


if __name__ == "__main__":
    main()
