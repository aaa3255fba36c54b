"""How fast this machine's cores are at the moment. On a virtual machine that shares its cores with
others, the same work takes up to twice as long from one minute to the next."""

import contextlib
import multiprocessing
import os
import time

import numpy

REPEATS = 4000
SAMPLES = 5


def work(core, pipe):
    """Answers every message with the seconds that a fixed computation in the cache takes now."""
    os.sched_setaffinity(0, {core})
    numbers, result = numpy.linspace(0.0, 1.0, 4096), numpy.empty(4096)
    while pipe.recv():
        took = []
        for _ in range(SAMPLES):
            start = time.perf_counter()
            for _ in range(REPEATS):
                numpy.exp(numbers, out=result)
            took.append(time.perf_counter() - start)
        pipe.send(numpy.median(took))


@contextlib.contextmanager
def pacer():
    """Yields a function that returns the seconds that the slowest core takes now for a fixed
    computation; all cores do it at once."""
    pipes, processes = [], []
    for core in sorted(os.sched_getaffinity(0)):
        here, there = multiprocessing.Pipe()
        processes.append(multiprocessing.Process(target=work, args=(core, there), daemon=True))
        processes[-1].start()
        pipes.append(here)

    def pace():
        for pipe in pipes:
            pipe.send(True)
        return max(pipe.recv() for pipe in pipes)

    pace()  # the first one starts up
    try:
        yield pace
    finally:
        for pipe, process in zip(pipes, processes):
            pipe.send(False)
            process.join()
