"""A full disk under what mcpio writes: traces, pages, bundles, results, approvals, configurations and tokens."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time

from issuer import Issuer
from processes import LARGE, MCP, Process, Server, check, demo_server, ended, expect, folder, mcpio, until

ERROR = re.compile(r"No space left on device|File too large")


class Disk:
    """A folder on a disk that can be filled."""

    def __enter__(self):
        self.folder = folder()
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "faults", self.folder]
        self.is_mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
        return self

    def __exit__(self, *_):
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", self.folder], check=True)

    def fill(self, room=0):
        """Leaves `room` bytes, in whole pages. Returns the prefix of commands that write to it."""
        if not self.is_mounted:
            # Files cannot grow beyond the room. The write itself fails if the signal is ignored.
            return ["sh", "-c", f'trap "" XFSZ; exec prlimit --fsize={room} "$@"', "-"]
        filler = self.folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        os.truncate(filler, filler.stat().st_size - room)
        return []

    def clear(self):
        (self.folder / "filler").unlink(missing_ok=True)


def record(*call):
    """A trace of a call, on another disk."""
    trace = folder() / "recorded.trace"
    expect(ended("--trace-file", trace, "call", *call, *demo_server()).code == 0, "no trace was recorded")
    return trace


def contents(path):
    """The contents of all files, by name; those of locks are empty."""
    return {file.name: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.stat().st_size}


def expect_same(old, path):
    sizes = [{name: len(data) for name, data in files.items()} for files in (old, contents(path))]
    expect(contents(path) == old, "old files changed: bytes by name:", *sizes)


@check("full disk: --trace-file reports it, and the client ends")
def _():
    with Disk() as disk:
        client = ended("--trace-file", disk.folder / "a.trace", "tools", *demo_server(), prefix=disk.fill())
        expect(client.code == 3 and ERROR.search(client.err) and "a.trace" in client.err, client)


@check("full disk: a trace that does not fit is reported and can be read, and the call succeeds")
def _():
    with Disk() as disk:
        trace = disk.folder / "a.trace"
        client = ended("--trace-file", trace, "call", "echo", f"text=@{LARGE}", *demo_server(), prefix=disk.fill(8192))
        expect(len(client.out) > 1_000_000 and ERROR.search(client.err), client)
        shown = ended("trace", trace)
        expect(shown.code in (0, 1) and "tools/list" in shown.out, "the part that was written is no trace:", shown)


@check("full disk: mcpio tap goes on without its trace")
def _():
    with Disk() as disk:
        tap = ["--", MCP, "tap", "--trace-file", disk.folder / "a.trace"]
        client = ended("call", "echo", f"text=@{LARGE}", *tap, *demo_server(), prefix=disk.fill(8192))
        expect(client.code == 0 and len(client.out) > 1_000_000, client)


for output, command in [
    ("page.html", lambda file: ("trace", record("add", "a=1", "b=2"), "--html", file)),
    ("trace.bundle", lambda file: ("bundle", record("add", "a=1", "b=2"), file, "--yes")),
    ("logo.png", lambda file: ("read", "demo://logo", "--output", file, *demo_server())),
]:

    @check(f"full disk: writing {output} fails, and succeeds once there is space")
    def _(output=output, command=command):
        with Disk() as disk:
            arguments = command(disk.folder / output)
            client = ended(*arguments, prefix=disk.fill())
            expect(client.code != 0 and ERROR.search(client.err), client)
            disk.clear()
            again = ended(*arguments)
            expect(again.code == 0 and (disk.folder / output).stat().st_size > 100, "a part is in the way:", again)


@check("full disk: a page of a trace that does not fit leaves the old page as it is")
def _():
    with Disk() as disk:
        page, small, large = disk.folder / "page.html", record("add", "a=1", "b=2"), record("echo", f"text=@{LARGE}")
        expect(ended("trace", small, "--html", page).code == 0, "no page")
        prefix, old = disk.fill(), contents(disk.folder)
        client = ended("trace", large, "--html", page, prefix=prefix)
        expect(client.code == 3 and ERROR.search(client.err), client)
        expect_same(old, disk.folder)


def approve(disk, server, prefix=()):
    """`mcpio approve` on a terminal, whose user agrees."""
    terminal, end = pty.openpty()
    project = ["--state", disk.folder / "state", "--config", disk.folder / "project/.mcp.json"]
    process = Process([MCP, "approve", *project, server], terminal=end, prefix=prefix)
    os.close(end)
    shown, answered = b"", False
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 4096):
            shown += chunk
            if b"[n]o: " in shown and not answered:
                answered = True
                os.write(terminal, b"y\n")
    os.close(terminal)
    process.end()
    process.err = shown.decode(errors="replace")
    return process


@check("full disk: an approval is refused with the reason, and older approvals stay")
def _():
    with Disk() as disk:
        entries = {"first": {"command": str(MCP), "args": ["serve"]}, "second": {"command": str(MCP), "args": ["--json", "serve"]}}
        (disk.folder / "project").mkdir()
        (disk.folder / "project/.mcp.json").write_text(json.dumps({"mcpServers": entries}))
        first, old = approve(disk, "first"), contents(disk.folder / "state")
        expect(first.code == 0 and old, first)
        second = approve(disk, "second", disk.fill())
        expect(second.code != 0 and ERROR.search(second.err), second)
        expect_same(old, disk.folder / "state")
        project = ["--state", disk.folder / "state", "--config", disk.folder / "project/.mcp.json"]
        servers = {server["server"]: server["status"] for server in json.loads(ended("servers", "--json", *project).out)["servers"]}
        expect(servers == {"first": "connected", "second": "not approved"}, servers)
        disk.clear()
        expect(approve(disk, "second").code == 0, "no approval once there is space")


@check("full disk: mcpio tap install leaves the application's configuration as it is")
def _():
    with Disk() as disk:
        (disk.folder / ".cursor").mkdir()
        config = {"mcpServers": {"demo": {"command": str(MCP), "args": ["serve"]}}}
        (disk.folder / ".cursor/mcp.json").write_text(json.dumps(config))
        old = contents(disk.folder / ".cursor")
        client = ended("tap", "install", "cursor", "demo", prefix=disk.fill(), home=disk.folder)
        expect(client.code != 0 and ERROR.search(client.err), client)
        expect_same(old, disk.folder / ".cursor")


VISIT = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=30).read()"


def log_in(tokens, url, *options, prefix=()):
    """`mcpio login`, whose user opens the page and follows its redirect."""
    login = mcpio(*options, "--tokens", tokens, "login", "--no-browser", url, prefix=prefix)
    page = re.compile(r"http://127\.0\.0\.1:\d+/authorize\?\S+(?=\s)")
    until(lambda: page.search(login.err) or not login.is_running(), "a page", 60)
    if found := page.search(login.err):
        subprocess.run([sys.executable, "-c", VISIT, found[0]], capture_output=True, timeout=60)
    return login.end()


@check("full disk: a login fails if its tokens cannot be stored, and leaves those of other servers as they are")
def _():
    issuer = Issuer(folder(), lifetime=3600)
    with Disk() as disk, Server("--issuer", issuer.url) as server, Server("--issuer", issuer.url) as other:
        tokens = disk.folder / "tokens"
        expect(log_in(tokens, other.url).code == 0, "no login")
        old = contents(tokens)
        login = log_in(tokens, server.url, prefix=disk.fill())
        expect_same(old, tokens)
        call = ended("--tokens", tokens, "call", "echo", "text=hi", other.url)
        expect(call.out == "hi\n", call)
        expect(ERROR.search(login.err), login)
        expect(login.code != 0, "nothing is stored, and the login succeeds:", login)


@check("full disk: a call whose token must be renewed succeeds or reports it, and the old token stays")
def _():
    issuer = Issuer(folder(), lifetime=2)
    with Disk() as disk, Server("--issuer", issuer.url) as server:
        tokens = disk.folder / "tokens"
        expect(log_in(tokens, server.url).code == 0, "no login")
        old = contents(tokens)
        # The token expires.
        time.sleep(3)
        client = ended("--json", "--timeout", 10, "--tokens", tokens, "call", "echo", "text=hi", server.url, prefix=disk.fill())
        expect((client.kind() == "ok" or ERROR.search(client.err)) and client.seconds < 40, client)
        expect_same(old, tokens)
        disk.clear()
        again = ended("--tokens", tokens, "call", "echo", "text=hi", server.url)
        expect(again.out == "hi\n", "once there is space:", again)
