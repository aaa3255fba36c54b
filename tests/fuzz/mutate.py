"""Changes texts at random, as people, editors and broken disks do, and worse.

Texts are str with a byte per character (Latin-1), so that any file is one.
"""

import re

NUMBERS = ("0", "-0", "-1", "1", "2", "3", "7", "16", "255", "256", "1000", "65536", "1000000",
           "2147483647", "2147483648", "4294967295", "4294967296", "9223372036854775807",
           "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e3", "1e15",
           "1e16", "1e17", "1e18", "1e30", "1e100", "1e300", "1e308", "1e309", "1e999999999",
           "1e-5", "1e-30", "1e-300", "1e-308", "1e-320", "1e-400", "4.9e-324", "0.1", "0.999999",
           "1.0000000001", "1.5", ".5", "5.", "0x10", "017", "0b1", "1_000", "+1", "--1", "1e",
           "nan", "-nan", "inf", "-inf", ".nan", ".inf", "")
WORDS = ("~", "null", "auto", "none", "true", "no", "[]", "{}", "''", '""', "*", "?", "-", ":", "|",
         ">", "&a", "*a", "!!int", "!x", "%", "@", "`", "#", "[", "]", "{", "}", ",", "---", "...",
         "<<", "R", "P", "S(0)", "S(9)", "S(-1)", "S(0)@0", "S(1)@1", "R@0", "replicate", "batch",
         "row(0)", "column(1)", "f32", "i32", "f16", "\u00e4".encode().decode("latin-1"))
UNITS = ("", "B", "KiB", "MiB", "GiB", "TiB", "KB", "GB", "us", "ns", "ms", "s", "min", "h",
         "GFLOPS", "TFLOPS", "MFLOPS", "FLOPS", "Gbps", "Mbps", "bps", "GB/s", "MB/s", "B/s", "%",
         " GB", "gb", "Kibibyte")

NUMBER = re.compile(r"(?<![A-Za-z_\d.])[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
TOKEN = re.compile(r"[A-Za-z_][\w.\-]*|[-+]?\d[\w.+]*|[^\s\w]")


def replace(text, start, end, new):
    return text[:start] + new + text[end:]


def pick(rng, pattern, text):
    """Returns start and end of one match, or None."""
    found = [match.span() for match in pattern.finditer(text)]
    return rng.choice(found) if found else None


def change_number(rng, text, _):
    where = pick(rng, NUMBER, text)
    if not where:
        return text
    old = text[slice(*where)]
    kind = rng.random()
    if kind < 0.5:
        new = rng.choice(NUMBERS)
    else:
        try:
            value = float(old) if any(c in old for c in ".eE") else int(old)
            new = str(rng.choice((value + 1, value - 1, value * 2, value * 10, -value, value * 1e-9,
                                  value * 1e9, value * 1e-300)))
        except (ValueError, OverflowError):
            new = old + old
    return replace(text, *where, new)


def change_unit(rng, text, _):
    where = pick(rng, re.compile(r"(?<=\d)[A-Za-z]+(?:/s)?"), text)
    return replace(text, *where, rng.choice(UNITS)) if where else text


def change_word(rng, text, _):
    where = pick(rng, TOKEN, text)
    return replace(text, *where, rng.choice(WORDS)) if where else text


def swap_words(rng, text, _):
    first, second = pick(rng, TOKEN, text), pick(rng, TOKEN, text)
    if not first or first[1] > second[0]:
        return text
    one, other = text[slice(*first)], text[slice(*second)]
    return replace(replace(text, *second, one), *first, other)


def borrow_word(rng, text, others):
    where, other = pick(rng, TOKEN, text), rng.choice(others)
    source = pick(rng, TOKEN, other)
    return replace(text, *where, other[slice(*source)]) if where and source else text


def misspell(rng, text, _):
    where = pick(rng, re.compile(r"[A-Za-z_]{3,}"), text)
    if not where:
        return text
    word = text[slice(*where)]
    at = rng.randrange(len(word) - 1)
    return replace(text, *where, rng.choice((
        word[:at] + word[at + 1] + word[at] + word[at + 2:], word[:at] + word[at + 1:],
        word[:at] + word[at] + word[at:], word.upper(), word + "_", word * 2)))


def change_value(rng, text, others):
    """Replaces the value after a colon by nothing, another text, or another key's value."""
    value = re.compile(r"(?<=: )[^\n#{}\[\],]+")
    where = pick(rng, value, text)
    if not where:
        return text
    old = text[slice(*where)]
    other = rng.choice((text, *others))
    borrowed = pick(rng, value, other)
    return replace(text, *where, rng.choice((
        "", f"[{old}]", f"[{old}, {old}]", f"{{a: {old}}}", f'"{old}"', f"'{old}", f"!!str {old}",
        f"&x {old}", rng.choice(NUMBERS), rng.choice(WORDS), f"|\n    {old}",
        other[slice(*borrowed)] if borrowed else "")))


def change_key(rng, text, others):
    """Renames a key like another one, repeats it, or removes it."""
    key = re.compile(r"[A-Za-z_][\w.]*(?=:)")
    where = pick(rng, key, text)
    other = rng.choice((text, *others))
    borrowed = pick(rng, key, other)
    if not where or not borrowed:
        return text
    return replace(text, *where, rng.choice((
        other[slice(*borrowed)], text[slice(*where)] + ": 1, " + text[slice(*where)], "")))


def lines_of(text):
    return text.split("\n")


def move_lines(rng, text, others):
    lines = lines_of(text)
    at = rng.randrange(len(lines))
    count = min(rng.choice((1, 1, 1, 2, 5)), len(lines) - at)
    block = lines[at:at + count]
    kind = rng.randrange(5)
    if kind != 0:  # 0: repeated
        del lines[at:at + count]
    if kind == 1:
        return "\n".join(lines)  # removed
    if kind == 2:
        block = ["  " + line for line in block]
    if kind == 3:
        block = [line[rng.choice((1, 2)):] for line in block]
    if kind == 4:
        block = [rng.choice(lines_of(rng.choice(others)))]
    to = at if kind in (2, 3) else rng.randrange(len(lines) + 1)
    return "\n".join(lines[:to] + block + lines[to:])


def change_bytes(rng, text, _):
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + chr(rng.randrange(256)) + text[at + 1:]
    if kind == 1:
        odd = ("\0", "\x1b[31m", "\t", "\r", "\x07", "\x7f", "\xff\xfe", "\xef\xbb\xbf", "\xc3",
               "\x85", "\xe2\x80\xae", "\x9b", "\n\n", "\x04", "\xf4\x90\x80\x80", "%s%n", "\\")
        return text[:at] + rng.choice(odd) + text[at:]
    if kind == 2:
        return text[:at] + text[at + rng.choice((1, 1, 2, 10, 100)):]
    return text[:at] if rng.random() < 0.5 else text[at:]


def blow_up(rng, text, _):
    """Inserts very deep, very long, or very many elements."""
    at = rng.randrange(len(text) + 1)
    size = rng.choice((100, 1000, 20000))
    piece = rng.choice(("[" * size, "{a: " * size, "a" * size, "9" * size, "- " * size, "1," * size,
                        " " * size, "\n" * size, "(" * size, "x: 1\n" * size, "? " * size,
                        "\x1b" * size, "0." + "0" * size + "1"))
    return text[:at] + piece + text[at:]


def splice(rng, text, others):
    other = rng.choice(others)
    return text[:rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1):]


MUTATIONS = {change_number: 10, change_unit: 2, change_word: 5, swap_words: 3, borrow_word: 3,
             misspell: 2, change_value: 5, change_key: 3, move_lines: 5, change_bytes: 2,
             blow_up: 0.7, splice: 0.5}


def mutate(rng, text, others):
    """Returns the text with one or more changes; others: texts from which pieces may be borrowed."""
    for _ in range(rng.choices((1, 2, 3, 6), (6, 3, 2, 1))[0]):
        change = rng.choices(list(MUTATIONS), list(MUTATIONS.values()))[0]
        text = change(rng, text, others or [text])
    return text
