"""Runs every command that README.md and docs/*.md show, verbatim and in order, in a bare checkout.

A page's blocks begin with ```bash, or ```text for what the block before prints. Shown output is
compared in shape: numbers, times, sizes, hashes and paths may differ. A line `...` stands for any
lines, `...` within a line for any text. Standard output and standard error come through two pipes, in
no order between them: lines that follow each other in the page follow each other in one of them, or
change to the other one. Without `...` there is no other line.

A block that needs what this machine may lack begins with a comment `# Needs ...` and is skipped.

HIDUP_PAGES="docs/search.md docs/gpus.md" runs these pages alone, after the quick start.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import harness

ENVIRONMENT = "source jobs/environment.sh\n"  # as README.md says, in every new shell
BLOCK_SECONDS = 400
# The order of a reader: README.md first, whose quick start makes what the other pages start with.
FIRST = "README.md"


def pages(folder):
    """README.md and the pages of docs/, in the order in which README.md names them."""
    readme = (folder / FIRST).read_text(encoding="utf-8")
    found = list(dict.fromkeys(re.findall(r"\(((?:docs|docs/figures)/[\w-]+\.md)[)#]", readme)))
    return [FIRST, *found]


def fences(text):
    """(line, language, text) of every fenced block of a page."""
    found, opened = [], None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*```(\w*)\s*$", line)
        if opened is None and mark:
            opened = (number, mark[1], [])
        elif opened is not None and mark:
            found.append((opened[0], opened[1], "\n".join(opened[2])))
            opened = None
        elif opened is not None:
            opened[2].append(line)
    if opened is not None:
        raise ValueError(f"line {opened[0]}: a block that does not end")
    return found


def commands(text):
    """(line, command, shown output or None) of every block of commands of a page."""
    found = []
    for line, language, block in fences(text):
        if language == "bash":
            found.append([line, block, None])
        elif language == "text":
            if not found or found[-1][2] is not None:
                raise ValueError(f"line {line}: output without a command before it")
            found[-1][2] = block
        elif language not in ("yaml", "python"):
            raise ValueError(f"line {line}: a block of '{language}'; known are bash, text, yaml")
    return found


NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
UNIT = r"(?:ns|us|µs|ms|s|min|h|B|KiB|MiB|GiB|TiB|kB|MB|GB|%)"
MASKS = [
    (re.compile(r"(?<![\w.])(?:/[\w.+-]+)+/(?=(?:out|build|inputs|analysis|docs|jobs)\b)"), ""),
    (re.compile(r"\b[0-9a-f]{10,}\b"), "#"),                                 # hashes
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z"), "#"),
    (re.compile(rf"(?<![\w.])({NUMBER}\s*{UNIT}\b\s*)*{NUMBER}\s*{UNIT}(?!\w)(/s\b)?"), "#"),
    (re.compile(rf"(?<![A-Za-z_.])\s*{NUMBER}(?![A-Za-z_])"), "#"),
    (re.compile(r"\bstrategy \S+;"), "strategy #;"),  # what a search finds with measured times
    (re.compile(r"\b(?:less|more) than measured"), "# than measured"),       # a prediction is off either way
    (re.compile(r"\b\d+x(?=\s)"), "#"),                                       # how many, in a table
    (re.compile(r"(?<= )-(?=\s|$)"), "#"),                                   # no time, in a table
    (re.compile(r"[\s#]*#[\s#]*"), " # "),
    (re.compile(r"\s+"), " "),
]


def shape(line):
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return line.strip()


def matches(shown, line):
    """Whether a line of the output has the shape of the shown one, in which ... is any text."""
    parts = [re.escape(shape(part)) for part in shown.split("...")]
    # Where a number is cut by ... its mask may be longer.
    return re.fullmatch(r"\s*.*".join(parts), shape(line)) is not None


def chunks(shown):
    """Groups of lines that follow each other: between them is a line ... or an empty one."""
    found = [[]]
    for line in shown.splitlines():
        if line.strip() in ("...", ""):
            found.append([])
        else:
            found[-1].append(line)
    return [group for group in found if group]


def place(group, outputs, begins):
    """The ends, per output, of the first place from `begins` on where the outputs have the group: its
    first lines follow each other in one output, what is left does in another. None: there is none."""
    if not group:
        return begins
    for i, lines in enumerate(outputs):
        for start in range(begins[i], len(lines)):
            count = 0
            while (count < len(group) and start + count < len(lines)
                   and matches(group[count], lines[start + count])):
                count += 1
            if count == 0:
                continue
            ends = list(begins)
            ends[i] = start + count
            rest = group[count:]
            others = [[] if j == i else lines_of for j, lines_of in enumerate(outputs)]
            found = place(rest, others, ends) if rest else ends
            if found is not None:
                return found
    return None


def difference(shown, outputs):
    """What of the shown text the outputs (lists of lines) do not have; None if they have all of it."""
    outputs = [[line for line in lines if line.strip()] for lines in outputs]
    places = [0] * len(outputs)
    groups = chunks(shown)
    for group in groups:
        found = place(group, outputs, places)
        if found is None:
            return "not printed, or not in this order:\n" + "\n".join(group)
        places = found
    exact = not any(line.strip() == "..." for line in shown.splitlines())
    printed = sum(len(lines) for lines in outputs)
    lines = sum(len(group) for group in groups)
    if exact and printed != lines:
        return f"{printed} lines were printed, {lines} are shown, and no line is '...'"
    return None


class Checkout:
    """What a reader has: the files that git has, the built program, and a home of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        listed = subprocess.run(
            ["git", "-C", harness.SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            source = harness.SOURCE / name
            if name.split("/")[0].startswith("build") or not source.is_file():
                continue
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        (self.folder / "build").mkdir()
        (self.folder / "build" / "hidup").symlink_to(harness.BINARY)
        # The quick start builds, and finds that all is built.
        tools = self.folder / "build" / "tools"
        tools.mkdir()
        (tools / "cmake").write_text("#!/bin/sh\nexit 0\n")
        (tools / "cmake").chmod(0o755)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(harness.LAUNCHER_MARKS)}
        self.env["PATH"] = f"{tools}:{self.env['PATH']}"
        self.env["XDG_CACHE_HOME"] = str(harness.CACHE)

    def run(self, command):
        """(standard output, standard error) as lines, and the exit code."""
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            script = "set -e\n" + ENVIRONMENT + command
            process = subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                       start_new_session=True, preexec_fn=harness.end_with_parent)
            try:
                code = process.wait(BLOCK_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                code = f"still running after {BLOCK_SECONDS} s"
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().splitlines())
        return texts, code


class ShapeTest(unittest.TestCase):
    """Of the comparison itself: it must see what a wrong page says."""

    def test_numbers_times_and_paths_may_differ(self):
        self.assertTrue(matches("steps   200 in 22 s (1.34 s per step)", "steps  10 in 1 min 02 s (80 ms per step)"))
        self.assertTrue(matches("file    out/mine.h5", "file    /tmp/x-1/checkout/out/mine.h5"))
        self.assertTrue(matches("predicted 1.1 s per step: compute ...", "predicted 20.1 ms per step: compute 3 s"))

    def test_words_may_not(self):
        self.assertFalse(matches("steps 200 in 22 s", "step 200 in 22 s"))
        self.assertFalse(matches("file    out/mine.h5", "file    out/yours.h5"))
        self.assertFalse(matches("strategy  search, 2 microbatch(es)", "strategy  dp, 2 microbatch(es)"))

    def test_order_and_left_out_lines(self):
        printed = [["a 1", "b", "c"], ["error"]]
        self.assertIsNone(difference("a 2\n...\nc", printed))
        self.assertIsNone(difference("error\na 2\nb\nc", printed))  # two pipes have no order
        self.assertIsNotNone(difference("c\n...\na 2", printed))
        self.assertIsNotNone(difference("a 2\nc\n...", printed))
        self.assertIsNotNone(difference("a 2\nb\nc", printed))  # nothing says that there is more
        self.assertIsNotNone(difference("...\nd", printed))


class PagesTest(unittest.TestCase):

    def test_pages(self):
        with tempfile.TemporaryDirectory(prefix="hidup-pages-") as folder:
            checkout = Checkout(folder)
            chosen = os.environ.get("HIDUP_PAGES", "").split()
            ran, skipped = 0, []
            for page in pages(checkout.folder):
                blocks = commands((checkout.folder / page).read_text(encoding="utf-8"))
                if chosen and page not in chosen:
                    blocks = blocks[:1] if page == FIRST else []
                for line, command, shown in blocks:
                    where = f"{page}:{line}"
                    if command.lstrip().startswith("# Needs "):
                        skipped.append(where)
                        print(f"{where}: skipped: {command.lstrip().splitlines()[0][2:]}", flush=True)
                        continue
                    with self.subTest(where):
                        self.run_block(checkout, where, command, shown)
                    ran += 1
            print(f"{ran} blocks ran, {len(skipped)} were skipped")
            self.assertGreater(ran, 0)

    def test_all_pages_are_named_in_the_readme(self):
        docs = {f"docs/{path.name}" for path in (harness.SOURCE / "docs").glob("*.md")}
        self.assertLessEqual(docs, set(pages(harness.SOURCE)))

    def test_links_lead_somewhere(self):
        for page in [*pages(harness.SOURCE), "src/ARCHITECTURE.md"]:
            path = harness.SOURCE / page
            for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
                if "://" in target:
                    continue
                file, _, section = target.partition("#")
                linked = (path.parent / file).resolve() if file else path
                with self.subTest(page=page, target=target):
                    self.assertTrue(linked.exists())
                    if section:
                        self.assertIn(section, sections(linked.read_text(encoding="utf-8")))

    def run_block(self, checkout, where, command, shown):
        started = time.monotonic()
        outputs, code = checkout.run(command)
        print(f"{where}: {time.monotonic() - started:.1f} s", flush=True)
        printed = "\n".join(line for lines in outputs for line in lines)
        self.assertEqual(code, 0, f"{where}\n{command}\nprinted\n{printed}")
        if shown is not None:
            what = difference(shown, outputs)
            self.assertIsNone(what, f"{where}\n{what}\n\nprinted\n{printed}")


def sections(text):
    """The names by which links find the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main(verbosity=2)
