"""Checks, and the processes that they run: their output, their exit codes, and what /proc says of them."""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="faults."))
# The standard error of servers that clients start: they would pass on its last lines only.
SERVER_ERRORS = SCRATCH / "servers.log"
SERVER_ERRORS.touch()
# Each process has the scratch folder's name in its command line, so that processes that are left can be found.
MCP = SCRATCH / "mcpio"
# An argument that no pipe holds.
LARGE = SCRATCH / "large.txt"
LARGE.write_text("x" * 1_000_000)
# The machine may be busy: a wait that should take no time at all may take so many seconds.
PROMPT = 15

# A thread of async-process panics without descriptors; mcpio reports an error then.
PANIC = re.compile(r"panicked at (?!\S+/async-process-[\d.]+/src/reaper/signal\.rs)|fatal runtime error|has overflowed its stack")
# The standard error of each process that has panicked.
panics = []

CHECKS = []


class Problem(Exception):
    """Why a check has failed."""


def check(name):
    def add(function):
        CHECKS.append((name, function))
        return function

    return add


def expect(condition, *seen):
    if not condition:
        raise Problem(" ".join(str(part)[:400] for part in seen))


def until(condition, what, seconds=PROMPT):
    """Waits until the condition holds, and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        expect(time.monotonic() < end, f"after {seconds} s still not: {what}")
        time.sleep(0.05)
    return value


def folder():
    return pathlib.Path(tempfile.mkdtemp(dir=SCRATCH))


class Process:
    """A process whose standard error is collected, and searched for panics."""

    def __init__(self, command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, terminal=None, prefix=(), home=None):
        # A pipe, since the limit on the size of files would apply to a file.
        errors, end = os.pipe()
        self.err, self.began = "", time.monotonic()
        environment = os.environ | {"XDG_STATE_HOME": str(SCRATCH / "state"), "NO_COLOR": "1"}
        environment |= {"HOME": str(home)} if home else {}
        streams = (terminal,) * 3 if terminal else (stdin, stdout, end)
        self.popen = subprocess.Popen([*map(str, prefix), *map(str, command)], 0, None, *streams, env=environment)
        os.close(end)
        self.pid = self.popen.pid
        self.collector = threading.Thread(target=self.collect, args=(errors,), daemon=True)
        self.collector.start()

    def collect(self, errors):
        with open(errors, errors="replace") as lines:
            for line in lines:
                self.err += line
        if PANIC.search(self.err):
            panics.append(self.err)

    def is_running(self):
        return self.popen.poll() is None

    def end(self, seconds=90):
        """Waits for its end, and reads its output unless that is closed."""
        try:
            out, _ = self.popen.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Problem(f"it still runs {seconds} s later: {self.err}") from None
        self.code, self.out = self.popen.returncode, (out or b"").decode(errors="replace")
        self.seconds = time.monotonic() - self.began
        self.collector.join(PROMPT)
        return self

    def kill(self):
        self.popen.kill()
        self.popen.wait()

    def close(self, stream):
        getattr(self.popen, stream).close()
        setattr(self.popen, stream, None)

    def child(self):
        """The id of its child, once that has started its program."""
        own = proc(self.pid, "cmdline")
        return until(lambda: [child for child in children(self.pid) if proc(child, "cmdline") != own], "a child")[0]

    def kind(self):
        """The kind of the error that `--json` has printed; `ok` for success."""
        if self.code == 0:
            return "ok"
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
            return json.loads(self.out.splitlines()[-1])["error"]["kind"]
        return "none"

    def __str__(self):
        return f"exit code {self.code} after {self.seconds:.1f} s, {self.out[-150:]!r}, {self.err[-250:]!r}"


def mcpio(*arguments, **options):
    return Process([MCP, *arguments], **options)


def ended(*arguments, **options):
    return mcpio(*arguments, **options).end()


def demo_server():
    """The command of a server, whose standard error goes into a file that is searched for panics."""
    return ["--", "sh", "-c", f"exec {MCP} serve 2>>{SERVER_ERRORS}"]


class Server(Process):
    """`mcpio serve --http`, once it listens."""

    def __init__(self, *arguments, prefix=()):
        super().__init__([MCP, "serve", "--http", "127.0.0.1:0", *arguments], prefix=prefix)
        serving = until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/mcp", self.err), "a server", 60)
        self.url, self.port = serving[0], int(serving[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PROMPT)

    def expect_service(self):
        """Another client gets an answer."""
        direct = ended("call", "echo", "text=direct", self.url)
        expect(direct.out == "direct\n", "the server no longer serves others:", direct)


def proc(process, file):
    try:
        return pathlib.Path(f"/proc/{process}/{file}").read_text(errors="replace")
    except OSError:
        return ""


def children(process):
    """The ids of its children; each of its threads has a list."""
    lists = [proc(process, f"task/{path.name}/children") for path in pathlib.Path(f"/proc/{process}/task").glob("*")]
    return [int(child) for child in " ".join(lists).split()]


def is_alive(process):
    """Whether it runs; a zombie does not."""
    state = re.search(r"^State:\s+(\S)", proc(process, "status"), re.MULTILINE)
    return bool(state) and state[1] not in "ZX"


def cpu(process):
    """The seconds of CPU time that it has used."""
    fields = proc(process, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads(process):
    return len(os.listdir(f"/proc/{process}/task"))


def descriptors(process):
    return len(os.listdir(f"/proc/{process}/fd"))


def memory(process):
    """Its resident bytes, none if it has ended."""
    return int((proc(process, "statm") or "0 0").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processes_left():
    """All that run with the scratch folder in their command line."""
    ids = [int(id) for id in os.listdir("/proc") if id.isdigit()]
    return [id for id in ids if str(SCRATCH) in proc(id, "cmdline") and is_alive(id)]


passed, failed = [], []
reporting = threading.Lock()


def report(name, why=None):
    with reporting:
        (failed if why else passed).append(name)
        print(f"FAIL {name}: {' '.join(str(why).split())[:700]}" if why else f"ok   {name}", flush=True)


def attempt(function):
    """Why it failed, or `None`: one failure does not end the other checks."""
    try:
        function()
    except Exception as problem:
        return problem if isinstance(problem, Problem) else repr(problem)
