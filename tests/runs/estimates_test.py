"""The committed kernels/ESTIMATES.md and kernels/instructions.txt equal the scripts' output, and the scripts
count correctly."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import compiled_kernels
import instructions
import sass

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ESTIMATES = SOURCE / "tests" / "bench" / "estimates"
BINARY = os.environ.get("HIDUP_BINARY", SOURCE / "build" / "hidup")

sys.path.insert(0, str(ESTIMATES))
import counted  # noqa: E402
import gpu  # noqa: E402

NAME = "_ZN1kEv"
# The code has a loop over four elements at a time and one for the rest; a mask and a second kind of load lie
# outside the usual path.
CODE = """
        Function : _ZN1kEv
        /*0000*/                   S2R R0, SR_TID.X ;                  /* 0x1 */
        /*0010*/                   LDG.E R4, desc[UR4][R2.64] ;        /* 0x2 */
        /*0020*/                   FADD R5, R5, R4 ;                   /* 0x3 */
        /*0030*/              @P0  BRA 0x10 ;                          /* 0x4 */
        /*0040*/                   LDG.E R4, desc[UR4][R2.64] ;        /* 0x5 */
        /*0050*/                   LDG.E R6, desc[UR4][R2.64+0x4] ;    /* 0x6 */
        /*0060*/             @!P1  BRA 0x90 ;                          /* 0x7 */
        /*0070*/                   FSEL R4, R4, -INF , P2 ;            /* 0x8 */
        /*0080*/                   FSEL R6, R6, -INF , P2 ;            /* 0x9 */
        /*0090*/                   FADD R5, R5, R4 ;                   /* 0xa */
        /*00a0*/                   FADD R5, R5, R6 ;                   /* 0xb */
        /*00b0*/               @P2 BRA P3, 0x40 ;                      /* 0xc */
        /*00c0*/                   EXIT ;                              /* 0xd */
        /*00d0*/                   BRA 0xd0 ;                          /* 0xe */
        /*00e0*/                   NOP ;                               /* 0xf */
"""
WIDE = """
        Function : _ZN1kEv
        /*0000*/             @!P1  BRA 0x40 ;                          /* 0x1 */
        /*0010*/                   LDG.E.U16 R4, desc[UR4][R2.64] ;    /* 0x2 */
        /*0020*/                   LDG.E.U16 R5, desc[UR4][R2.64+2] ;  /* 0x3 */
        /*0030*/                   BRA 0x70 ;                          /* 0x4 */
        /*0040*/                   IADD3 R8, R8, 0x1, RZ ;             /* 0x5 */
        /*0050*/                   IADD3 R9, R8, 0x1, RZ ;             /* 0x6 */
        /*0060*/                   LDG.E.128 R4, desc[UR4][R2.64] ;    /* 0x7 */
        /*0070*/                   STG.E.128 desc[UR4][R2.64], R4 ;    /* 0x8 */
        /*0080*/              @P0  BRA 0x0 ;                           /* 0x9 */
        /*0090*/                   EXIT ;                              /* 0xa */
"""


def code_of(text):
    return sass.parse(text, {NAME: 256})[NAME]


class Sass(unittest.TestCase):
    def test_loops(self):
        code = code_of(CODE)
        self.assertEqual(len(code.instructions), 14)
        self.assertEqual([[one.address for one in loop.body] for loop in code.loops],
                         [[0x10, 0x20, 0x30], list(range(0x40, 0xc0, 0x10))])
        self.assertFalse(code.loops[0].holds(code.loops[1]))
        outer, inner = code_of(CODE.replace("EXIT", "BRA 0x0")).loops[:2]
        self.assertTrue(outer.holds(inner))
        self.assertFalse(inner.holds(outer) or outer.holds(outer))

    def test_the_usual_way(self):
        loop = code_of(CODE).loops[1]
        self.assertEqual([one.name for one in loop.usual()],
                         ["LDG", "LDG", "BRA", "FADD", "FADD", "BRA"])
        way = code_of(WIDE).loops[0].usual()  # the shorter one has no wide load
        self.assertEqual([one.opcode for one in way],
                         ["BRA", "IADD3", "IADD3", "LDG.E.128", "STG.E.128", "BRA"])
        narrow = WIDE.replace(".128", "").replace("IADD3 R9, R8, 0x1, RZ", "NOP")
        way = sass.usual_way(code_of(narrow).loops[0].body)
        self.assertEqual([one.opcode for one in way], ["BRA", "IADD3", "LDG.E", "STG.E", "BRA"])

    def test_threads(self):
        text = (f".nv.info.{NAME}\n\t<0x1>\n\tAttribute:\tEIATTR_MAX_THREADS\n"
                "\tFormat:\tEIFMT_SVAL\n\tValue:\t0x80 0x2 0x1 \n")
        self.assertEqual(sass.parse_threads(text), {NAME: 256})


class Instructions(unittest.TestCase):
    def test_unrolled_forms_count_once(self):
        row = dict(zip(instructions.COLUMNS, instructions.row_of("a: k", code_of(CODE))))
        self.assertEqual((row["threads"], row["all"]), (256, 14))
        self.assertEqual((row["element"], row["global"], row["wide"]), (3.0, 1.0, 0.0))

    def test_what_is_not_copied_with_the_loads(self):
        text = CODE.replace("@!P1  BRA 0x90 ;", "     FADD R7, R7, R7 ;")
        text = text.replace("FSEL R4, R4, -INF , P2", "NOP").replace("FSEL R6, R6, -INF , P2", "NOP")
        row = instructions.row_of("a: k", code_of(text))
        self.assertEqual(dict(zip(instructions.COLUMNS, row))["element"], 3.0)

    def test_elements_of_a_vector(self):
        row = dict(zip(instructions.COLUMNS,
                       instructions.row_of("a: k<BFloat16>", code_of(WIDE))))
        self.assertEqual((row["element"], row["global"], row["wide"], row["integer"]),
                         (0.75, 0.25, 1.0, 0.25))

    def test_tables_have_the_same_kernels(self):
        self.assertEqual(instructions.read().keys(), compiled_kernels.read().keys(),
                         "tests/runs/cuda_build.sh --table makes both, with a disassembler in PATH")

    def test_ten_percent_more_fails(self):
        def complaints(everything, an_element):
            expected = {"a: k": dict(zip(instructions.COLUMNS, (256, 100, 5.0)))}
            return list(instructions.complaints({"a: k": (256, everything, an_element)}, expected))
        self.assertEqual(complaints(110, 5.5), [])
        self.assertEqual(complaints(80, 4.0), [])
        self.assertEqual(complaints(111, 5.0), ["a: k has 111 instructions, 100 before"])
        self.assertEqual(complaints(100, 5.6), ["a: k has 5.60 instructions an element, 5 before"])
        self.assertEqual(list(instructions.complaints({"b: k": (256, 1, 1.0)}, {})),
                         ["b: k is not in the table"])


class Estimates(unittest.TestCase):
    def test_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "counted.txt"
            table.write_text("# Sizes are rows x columns.\n"
                             "kernel              bytes   read spread  banks  reason\n"
                             "a_forward bf16 7 x 9    7.00    7.00   7.00      -  not whole; 2.00\n"
                             "a_forward bf16 8 x 8    5.01   16.00   1.50   1.25\n"
                             "a_forward f32 8 x 8     1.00    2.00   1.00      -  4.00  is wrong\n"
                             "copy_strided f32 8      1.00    -      1.00      -\n")
            with unittest.mock.patch.object(counted, "TABLE", table):
                found = counted.read()
        self.assertEqual(counted.of(found, "a"),
                         dict(bytes=5.01, read=16.0, spread=1.5, banks=1.25))
        self.assertEqual(counted.of(found, "slice"),
                         dict(bytes=1.0, read=0.0, spread=1.0, banks=0.0))
        self.assertIsNone(counted.of(found, "b"))

    def test_resident_warps(self):
        """Warps by a block's registers, threads and shared memory, as in CUDA's occupancy calculator."""
        for kernel, warps in {(32, 256, 0): 64, (40, 256, 0): 48, (128, 256, 33536): 16,
                              (136, 128, 36864): 12, (255, 128, 35328): 8, (16, 1, 0): 32,
                              (32, 128, 100 * 1024): 8}.items():
            self.assertEqual(gpu.resident_warps(*kernel), warps, kernel)

    def test_waves(self):
        self.assertEqual(gpu.used_share(128 * 132, 256, 64), 1.0)
        self.assertAlmostEqual(gpu.used_share(128, 128 * 133, 64), 133 / 264)
        self.assertGreater(gpu.used_share(768, 768, 16384), gpu.used_share(768, 768, 512))

    def test_the_file_is_what_the_script_makes(self):
        done = subprocess.run([sys.executable, str(ESTIMATES), "--check", "--hidup", str(BINARY)],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""),
                         "python3 tests/bench/estimates makes it anew")


if __name__ == "__main__":
    unittest.main()
