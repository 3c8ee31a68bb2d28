"""Counts of instructions, allocations and system calls of programs that can run a row N times (`--repeat N ROW`)."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

# The versions that were used so far. If the archive has dropped one, its newest is used.
TOOLS = {"valgrind": "1:3.19.0-1", "strace": "6.1-0.1", "chromium": "156.0.8078.108-1~deb12u1"}
ALLOCATORS = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"}


class CountError(Exception):
    """A tool that is missing, or a program that failed."""


def install(tool):
    """Installs a tool with apt-get if it is missing."""
    if shutil.which(tool):
        return
    if not shutil.which("apt-get"):
        raise CountError(f"there is neither {tool} nor apt-get to install it with")
    apt = ["apt-get", "--quiet", "--yes", "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=20"]
    for attempt in range(5):
        time.sleep(attempt * 3)
        subprocess.run([*apt, "update"], stdout=sys.stderr)
        for package in (f"{tool}={TOOLS[tool]}", tool):
            install = [*apt, "install", "--no-install-recommends", package]
            if subprocess.run(install, stdout=sys.stderr).returncode == 0:
                return
        print(f"attempt {attempt + 1} to install {tool} failed", file=sys.stderr)
    raise CountError(f"{tool} cannot be installed")


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if done.returncode:
        raise CountError(f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr[-2000:]}")


def profile(command, within=None):
    """(instructions, allocations) of a process, or of functions in it, by callgrind: allocations are calls of malloc and its
    like."""
    options = [f"--toggle-collect={within}"] if within else []
    with tempfile.TemporaryDirectory(prefix="callgrind.") as folder:
        file = pathlib.Path(folder, "out")
        run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", *options, *command])
        names, callee, instructions, allocations = {}, "", None, 0
        for line in file.read_text().splitlines():
            # A function's name stands at its first mention only.
            if named := re.match(r"c?fn=(\(\d+\))(?: (.*))?", line):
                number, name = named.groups()
                names.setdefault(number, name)
                if line.startswith("c"):
                    callee = names[number]
            elif line.startswith("calls=") and callee in ALLOCATORS:
                allocations += int(line[6:].split()[0])
            elif line.startswith(("summary:", "totals:")):
                instructions = int(line.split()[1])
    if instructions is None:
        raise CountError(f"callgrind wrote no total: {' '.join(command)}")
    return instructions, allocations


def system_calls(command):
    """The number of system calls of a process, its threads and its children."""
    with tempfile.TemporaryDirectory(prefix="strace.") as folder:
        file = pathlib.Path(folder, "out")
        run(["strace", "-f", "-c", "-o", str(file), *command])
        total = [line.split() for line in file.read_text().splitlines() if line.endswith(" total")]
    if not total:
        raise CountError(f"strace wrote no total: {' '.join(command)}")
    return (int(total[0][3]),)


def each(count, program, row, runs):
    """The counts of one run of a row: the difference between processes with 2 N runs and with N, divided by N."""
    once, twice = (count([*program, "--repeat", str(times), row]) for times in (runs, 2 * runs))
    return tuple((more - less) / runs for less, more in zip(once, twice))
