#!/usr/bin/env python3
"""Checks names that a build of grouped sources cannot check, because sources see each other's there.

    names.py <SOURCES    (NUL between the names)

A source must include, itself or through its headers, a header that declares each type, constant and function
of the project that it uses. It must use the names that `using a::b;` and `namespace a = b;` bring. The check
looks at words, not at their meaning: it passes over a name that a member, a parameter or a variable has, too. It
found 9 of 10 missing includes that stop a compiler.
"""

import functools
import pathlib
import re
import sys

from unify import INCLUDE, ROOT, included

COMMENT = re.compile(r'(?s:R"(\w*)\(.*?\)\1")|//.*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
USED = re.compile(r"(?:(?<![\w.:>])|(?<=\bhidup::)|(?<=\bkernels::))(?:[A-Z]\w*[a-z]\w*|k[A-Z]\w*|[a-z]\w*(?=\())")
SYSTEM = {"write"}  # functions of the system with names of ours
# clang-format puts what a namespace has at the beginning of a line.
DECLARED = re.compile(r"^(?:template <.*>\n)?(?:(?:struct|class|enum class|enum|union|using)\s+(\w+)\b(?!::)"
                      r"|(?:[\w:<>,*&\[\]]+ )+[*&]*(\w+)(?:\(| =|\[|\{|;))|^#define (\w+)", re.MULTILINE)
ALIAS = re.compile(r"^(?:using [\w:]+::(\w+);|namespace (\w+) =)", re.MULTILINE)
# A word before a name that does not make it a declaration.
NO_TYPE = r"(?:return|else|case|throw|new|delete|const|constexpr|static|inline|extern|explicit|mutable|public|private)"


@functools.cache
def code(path):
    """Returns the text without comments, strings and names of files."""
    text = re.sub(r"^#include.*$", "", path.read_text(), flags=re.MULTILINE)
    return COMMENT.sub(" ", text)


@functools.cache
def declared(path):
    return {name for names in DECLARED.findall(code(path)) for name in names if name}


def closure(source):
    files = [source]
    for path in files:
        files += [header for header in included(path) if header not in files]
    return files


def main():
    paths = [pathlib.Path(name).resolve() for name in sys.stdin.read().split("\0") if name]
    headers = [path for path in paths if path.suffix == ".h"]
    places = {}
    for header in headers:
        for name in declared(header):
            places.setdefault(name, []).append(header)
    faults = []
    for source in paths:
        text, where = code(source), source.relative_to(ROOT)
        files = closure(source)
        visible = set().union(*map(declared, files))
        everything = "\n".join(map(code, files))
        for word in sorted(set(USED.findall(text)) & places.keys() - visible - SYSTEM):
            own = rf", {word}\]|(?:^|[\s(<,)])(?!{NO_TYPE}\b)[\w:<>]*[\w>][ &*.]+ ?[&*]*{word}\b(?!\s*::)"
            if re.search(own, everything, re.MULTILINE):  # a member, a parameter, a variable of a function
                continue
            faults.append(f"{where}: {word} is declared in "
                          f"{', '.join(str(p.relative_to(ROOT)) for p in places[word])}, which it does not include")
        if source.suffix == ".cpp":
            for one, other in ALIAS.findall(text):
                if len(re.findall(rf"\b{one or other}\b", text)) < 2:
                    faults.append(f"{where}: {one or other} is named, but not used")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
