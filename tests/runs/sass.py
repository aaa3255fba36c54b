"""The machine code of CUDA kernels in cuobjdump's output: instructions, loops, and the usual path through a
loop."""

import re
import shutil
import subprocess
import typing

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
WIDTHS = {"128": 128, "64": 64, "U16": 16, "S16": 16, "U8": 8, "S8": 8}
GLOBAL = ("LDG", "STG", "LDGSTS")  # the last one copies to shared memory
TENSOR = ("HMMA", "HGMMA")


class Instruction(typing.NamedTuple):
    address: int
    predicate: str  # empty: always
    opcode: str  # with its modifiers: LDG.E.128
    operands: str

    @property
    def name(self):
        """The opcode without the modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def bits(self):
        """The bits that a load or a store moves per lane."""
        return next((WIDTHS[part] for part in self.opcode.split(".") if part in WIDTHS), 32)

    @property
    def is_wide(self):
        return self.name in GLOBAL and self.bits == 128

    @property
    def target(self):
        """The address of a branch; None for other instructions and for branches by a register."""
        found = re.search(r"0x([0-9a-f]+)\s*$", self.operands) if self.name == "BRA" else None
        return int(found[1], 16) if found else None

    @property
    def goes_on(self):
        """True if the next instruction may follow."""
        if self.name == "BRA":
            return bool(self.predicate) or "P" in self.operands.partition("0x")[0]
        return bool(self.predicate) or self.name not in ("EXIT", "BRX", "RET")


def loads(body):
    """Returns true if the body loads from global memory."""
    return any(one.name in ("LDG", "LDGSTS") for one in body)


class Loop(typing.NamedTuple):
    """The instructions between a backward branch and its target."""
    body: list  # instructions, also of inner loops

    @property
    def loads(self):
        return loads(self.body)

    def holds(self, other):
        return self is not other and (self.body[0].address <= other.body[0].address
                                      and other.body[-1].address <= self.body[-1].address)

    def usual(self):
        """Returns the usual path; the whole body where that path loads nothing."""
        way = usual_way(self.body)
        return way if loads(way) else self.body


class Code:
    """The instructions of a kernel."""

    def __init__(self, instructions, threads):
        self.instructions = [i for i in instructions if i.name != "NOP"]
        self.threads = threads  # of a block, at most
        self.loops = self._find_loops()
        self.has_wide = any(one.is_wide for one in self.instructions)

    def usual(self):
        """Returns the usual path up to the first end after the last access of 16 bytes."""
        last = max(i for i, one in enumerate(self.instructions) if one.is_wide)
        end = next(i for i, one in enumerate(self.instructions)
                   if i > last and one.name == "EXIT" and not one.predicate)
        return usual_way(self.instructions[:end + 1])

    def _find_loops(self):
        """Returns the loops by address."""
        ends = {}
        for instruction in self.instructions:
            target = instruction.target
            if target is not None and target < instruction.address:
                ends[target] = max(ends.get(target, 0), instruction.address)
        return [Loop([i for i in self.instructions if first <= i.address <= last])
                for first, last in sorted(ends.items())]


def usual_way(body):
    """Returns the instructions of the shortest path that has all accesses of 16 bytes to global memory and
    all products of tensor cores. It leaves out masks, other alignments and the like, and passes inner loops
    once."""
    blocks = _blocks(body)
    wanted = [i for i, block in enumerate(blocks)
              if any(one.is_wide or one.name in TENSOR for one in block)]
    way = [0]
    for block in [*wanted, len(blocks) - 1]:
        if block > way[-1]:
            way += _shortest(blocks, way[-1], block)
    return [instruction for block in way for instruction in blocks[block]]


def _blocks(body):
    """Cuts a body before every target and after every branch."""
    starts = {body[0].address}
    for instruction, after in zip(body, body[1:]):
        if instruction.target is not None or not instruction.goes_on:
            starts |= {instruction.target, after.address}
    blocks = []
    for instruction in body:
        if instruction.address in starts:
            blocks.append([])
        blocks[-1].append(instruction)
    return blocks


def _shortest(blocks, first, last):
    """Returns the blocks after `first` up to `last` on the forward path with the fewest instructions; none
    without a path."""
    at = {block[0].address: i for i, block in enumerate(blocks)}
    least = {first: (0, [])}
    for i in range(first, last):
        if i not in least:
            continue
        length, way = least[i]
        end = blocks[i][-1]
        for after in {at.get(end.target), i + 1 if end.goes_on else None}:
            if after is not None and after > i:
                longer = (length + len(blocks[after]), way + [after])
                least[after] = min(least.get(after, longer), longer)
    return least[last][1] if last in least else []


def disassembler():
    """Returns the disassembler's path, or None. It starts nvdisasm, which must be in PATH, too."""
    path = shutil.which("cuobjdump")
    return path if path and shutil.which("nvdisasm") else None


def parse(text, threads):
    """Returns {mangled name: Code} from cuobjdump -sass. threads: {mangled name: of a block}."""
    found = {}
    instructions = None
    for line in text.splitlines():
        if "Function :" in line:
            instructions = found.setdefault(line.partition("Function :")[2].strip(), [])
        elif instructions is not None and (match := INSTRUCTION.search(line)):
            address, predicate, opcode, operands = match.groups()
            instructions.append(Instruction(int(address, 16), predicate or "", opcode, operands))
    return {name: Code(code, threads.get(name)) for name, code in found.items()}


def parse_threads(text):
    """Returns {mangled name: threads of a block, at most} from the output of cuobjdump -elf."""
    found = {}
    name = None
    lines = iter(text.splitlines())
    for line in lines:
        if section := re.match(r"\.nv\.info\.(\w+)\s*$", line):
            name = section[1]
        elif "EIATTR_MAX_THREADS" in line:
            next(lines)
            values = re.findall(r"0x([0-9a-f]+)", next(lines))
            found[name] = int(values[0], 16) * int(values[1], 16) * int(values[2], 16)
    return found


def read(file):
    """Returns {mangled name: Code} of the kernels in an object file or a program."""
    def printed(option):
        return subprocess.run([disassembler(), option, str(file)], check=True, capture_output=True,
                              text=True).stdout
    return parse(printed("-sass"), parse_threads(printed("-elf")))
