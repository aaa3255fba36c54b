"""Parts of an HTML page that needs no network: all texts are escaped, nothing is loaded."""

import html
import re

LONGEST = 200_000  # characters of a text on a page

STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em;
       color: #1a1a1a; background: #ffffff; }
h1 { font-size: 1.6em; margin-bottom: 0; } h2 { font-size: 1.2em; margin-top: 2em; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 0.5em 0; }
th, td { padding: 0.15em 0.9em 0.15em 0; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
h1, p { overflow-wrap: anywhere; }
thead th { border-bottom: 1px solid #888888; }
tbody th { padding-top: 0.8em; text-align: left; }
pre { background: #f4f4f4; padding: 0.8em; overflow-x: auto; font-size: 0.85em; }
.scroll { overflow-x: auto; }
.note { color: #555555; }
.warnings { border-left: 4px solid #d55e00; padding: 0.2em 0 0.2em 1em; }
details { margin: 0.4em 0; } summary { cursor: pointer; }
"""
# Under this policy a browser loads nothing and runs nothing, whatever the page contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def text(value):
    """Escapes a text and replaces control characters, which HTML does not allow."""
    return html.escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", str(value)))


def table(head, rows):
    """Returns a table; `rows` are lists of cells; a single cell is a heading for the rows below it."""
    parts = ['<div class="scroll"><table>']
    if head:
        parts.append("<thead><tr>" + "".join(f"<th>{text(cell)}</th>" for cell in head) +
                     "</tr></thead>")
    parts.append("<tbody>")
    for row in rows:
        if len(row) == 1:
            parts.append(f'<tr><th colspan="9">{text(row[0])}</th></tr>')
        else:
            parts.append("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>")
    return "\n".join([*parts, "</tbody></table></div>"])


def section(title, *parts):
    return "\n".join([f"<h2>{text(title)}</h2>", *parts])


def note(words):
    return f'<p class="note">{text(words)}</p>'


def bullets(lines):
    return '<ul class="warnings">' + "".join(f"<li>{text(line)}</li>" for line in lines) + "</ul>"


def folded(title, content):
    """Returns a text, folded away."""
    cut = note(f"The first {LONGEST:,} of {len(content):,} characters.") if len(
        content) > LONGEST else ""
    return fold(title, f"{cut}<pre>{text(content[:LONGEST])}</pre>")


def fold(title, inner):
    """Returns HTML, folded away."""
    return f"<details><summary>{text(title)}</summary>{inner}</details>"


def page(title, parts):
    body = "\n".join(parts)
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
            "</body>\n</html>\n")
