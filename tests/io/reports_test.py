#!/usr/bin/python3
"""analysis report: the page of a run needs no network and shows texts of files as texts.

    reports_test.py ANALYSIS_FOLDER [TEST...]
"""

import html.parser
import os
import sys
import unittest
import unittest.mock

import h5py

ANALYSIS = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(ANALYSIS))
from analysis import facts, figures, page  # noqa: E402
from analysis.commands import report, timeline  # noqa: E402
from sample_run import write_run  # noqa: E402
from sample_timeline import FolderTest  # noqa: E402
from scripts import script  # noqa: E402

figures.STYLE["figure.dpi"] = 50  # faster, and with the same layout
HOSTILE = '</pre><script src="//evil.example/x.js"></script> $\\frac{$ & \x01'


class Page(html.parser.HTMLParser):
    """Checks that elements are closed, and collects everything that a browser might load or run."""

    VOID = {"meta", "link", "img", "br", "hr", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.ids, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                self.references.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)


class Reports(FolderTest):
    def draw_only(self, *names):
        """Leaves out the other figures, which take time."""
        kept = tuple(figure for figure in report.FIGURES if figure[1] in names)
        change = unittest.mock.patch.object(report, "FIGURES", kept)
        change.start()
        self.addCleanup(change.stop)

    def page(self):
        done = script("report", self.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, self.in_folder("run-report.html") + "\n")
        with open(self.in_folder("run-report.html"), encoding="utf-8") as file:
            text = file.read()
        parsed = Page(text)
        self.assertEqual(parsed.open, [])
        for reference in parsed.references:
            self.assertRegex(reference, r"^(#|data:image/)")
        self.assertNotRegex(text, r"https?://|url\((?!#)|@import")
        self.assertEqual(len(parsed.ids), len(set(parsed.ids)))
        for target in parsed.references:
            if target.startswith("#"):
                self.assertIn(target[1:], parsed.ids)
        return text, parsed

    def test_a_whole_run(self):
        write_run(self.path)
        text, parsed = self.page()
        self.assertEqual(parsed.tags.count("svg"), len(report.FIGURES))
        self.assertNotIn("script", parsed.tags)
        shown = "".join(parsed.texts)
        for expected in ("run.h5: tiny, dp on 2 ranks (cpu)", "The file ends at step 10 of 12",
                         "The step takes 40 ms, but 50 ms were predicted.", "25,000", "3 MiB",
                         "12% of the tokens found no slot", "model: {}", "mesh: {}"):
            self.assertIn(expected, shown)
        for unexpected in ("Not drawn", "pipeline idle"):
            self.assertNotIn(unexpected, shown)

    def test_a_pipeline(self):
        write_run(self.path, stages=True)
        self.draw_only("operations", "timeline", "roofline")
        text, parsed = self.page()
        shown = "".join(parsed.texts)
        self.assertNotIn("Not drawn", shown)
        self.assertEqual(parsed.tags.count("svg"), 3)
        self.assertRegex(text, r"of it exposed</th>\s*<th>pipeline idle</th>\s*<th>peak memory")
        self.assertIn("12 ms", parsed.texts)  # of rank 0
        self.assertIn("8 ms (4 ms to 12 ms)", parsed.texts)

    def test_slow_ranks(self):
        """Rank 1 is slow from step 2, and the messages of both ranks are from step 3 to 4."""
        write_run(self.path)
        self.draw_only("timeline")
        with h5py.File(self.path, "r+") as file:
            group = file.create_group("stragglers")
            group.attrs["causes"] = ["products", "messages"]
            for name, values in (("step", (6, 7, 7, 9, 9)), ("since", (2, 3, 3, 5, 5)),
                                 ("rank", (1, 0, 1, 0, 1)), ("cause", (0, 1, 1, 1, 1)),
                                 ("slower_by", (0.5, 0.8, 0.8, 0, 0)), ("over", (0, 0, 0, 1, 1))):
                group[name] = values
        text, parsed = self.page()
        shown = "".join(parsed.texts)
        self.assertIn("Rank 0 was 80% slower in messages from step 3 to 4.", shown)
        self.assertIn("Rank 1 was 50% slower in products from step 2, 80% slower in messages from step 3 "
                      "to 4.", shown)
        self.assertRegex(text, r"memory</th>\s*<th>slow</th>")
        self.assertEqual(facts.slow_ranks(self.path, 1), {})
        self.assertEqual(list(facts.slow_ranks(self.path, 2)), [1])
        panels, _ = timeline.measured_panels(self.path, 2, None)
        self.assertEqual([panel.label for panel in panels], ["rank 0", "rank 1\nslow"])

    def test_texts_from_files_stay_texts(self):
        write_run(self.path)
        self.draw_only("breakdown", "timeline")
        with h5py.File(self.path, "r+") as file:
            del file["input/model_deck"], file["strategy/text"]
            file["input/model_deck"] = HOSTILE
            file["strategy/text"] = "x" * (page.LONGEST + 5)
            file.attrs["model"] = HOSTILE
            file["strategy"].attrs["name"] = "<b>$x"
            file["program/name"][:] = [HOSTILE] * 6
        text, parsed = self.page()
        self.assertEqual([tag for tag in parsed.tags if tag in ("script", "b")], [])
        self.assertEqual(parsed.tags.count("svg"), len(report.FIGURES))
        self.assertIn("</pre><script src=", "".join(parsed.texts))
        self.assertNotIn("\x01", text)
        self.assertNotIn("x" * (page.LONGEST + 1), text)
        self.assertIn(f"The first {page.LONGEST:,} of {page.LONGEST + 5:,} characters.", text)

    def test_parts_that_the_file_lacks(self):
        write_run(self.path)
        with h5py.File(self.path, "r+") as file:
            for name in ("timeline", "experts", "validation", "input", "strategy"):
                del file[name]
        _, parsed = self.page()
        shown = "".join(parsed.texts)
        self.assertIn("Not drawn: holds no timeline.", shown)
        self.assertEqual(parsed.tags.count("svg"), 2)

    def test_many_steps(self):
        write_run(self.path, steps=100_000)
        self.draw_only("loss", "experts")
        text, parsed = self.page()
        self.assertLess(len(text), 3_000_000)
        self.assertIn("Every 2000th of 100,000 steps", "".join(parsed.texts))

    def test_names_of_pages(self):
        write_run(self.path)
        self.draw_only()
        out = self.in_folder("x.html")
        self.assertEqual(script("report", self.path, self.path, "-o", out).returncode, 2)
        self.assertFalse(os.path.exists(out))
        self.assertEqual(script("report", self.path, "-o", out).stdout, f"{out}\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
