"""Signals, and standard streams that are closed, full, flooded or not read, between a client and its server."""

import array
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time

from processes import (
    LARGE, MCP, PROMPT, SCRATCH, SERVER_ERRORS, Problem, Process, Server,
    check, children, cpu, demo_server, ended, expect, folder, is_alive, mcpio, memory, until,
)  # fmt: skip


def running_call(*options):
    """A call that takes long, and the id of its server."""
    client = mcpio(*options, "--json", "call", "slow", "seconds=600", *demo_server())
    server = client.child()
    # Time for the handshake and the call.
    time.sleep(1)
    return client, server


@check("server: the client reports how a killed one ended")
def _():
    client, server = running_call()
    killed = time.monotonic()
    os.kill(server, signal.SIGKILL)
    client.end()
    expect(client.kind() == "connection" and "SIGKILL" in client.out, client)
    expect(time.monotonic() - killed < PROMPT, "late:", client)


@check("server: the timeout ends a call of a stopped one, which is killed")
def _():
    client, server = running_call("--timeout", 4)
    os.kill(server, signal.SIGSTOP)
    client.end()
    expect(client.kind() == "timeout" and client.code == 3, client)
    expect(not is_alive(server), "the stopped server is left")


for behaviour, kinds, what in [
    ("close-output", {"connection"}, "closed standard output"),
    ("close-input", {"connection"}, "closed standard input"),
    ("ignore-input", {"timeout"}, "a large request that is never read"),
    ("flood-output", {"timeout", "invalid", "connection"}, "an answer without an end"),
    ("garbage", {"ok"}, "lines that are no messages"),
    ("close-stderr", {"ok"}, "closed standard error"),
    ("flood-stderr", {"ok"}, "64 MB on standard error"),
]:

    @check(f"server: {what}: the call ends with {' or '.join(sorted(kinds))}")
    def _(behaviour=behaviour, kinds=kinds):
        server = ["--", sys.executable, SCRATCH / "faults.d/child.py", behaviour]
        client, most = mcpio("--timeout", 5, "--json", "call", "act", f"text=@{LARGE}", *server), 0
        while client.is_running() and time.monotonic() - client.began < 60:
            most = max(most, memory(client.pid))
            time.sleep(0.05)
        client.end(1)
        expect(client.kind() in kinds, client)
        expect(most < 300e6, f"the client has used {most / 1e6:.0f} MB")


@check("server: answers that are not read: it stays within its memory, and ends once its streams are closed")
def _():
    server = Process([MCP, "serve"], stdin=subprocess.PIPE)
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "faults", "version": "1"}}
    call = {"name": "echo", "arguments": {"text": "x" * 100_000}}
    messages = [("initialize", client), ("notifications/initialized", {}), *[("tools/call", call)] * 2000]
    lines = [{"jsonrpc": "2.0", "id": id, "method": method, "params": params} for id, (method, params) in enumerate(messages)]
    del lines[1]["id"]
    sent = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    os.set_blocking(server.popen.stdin.fileno(), False)
    written, last = 0, time.monotonic()
    while written < len(sent) and time.monotonic() - last < 3:
        with contextlib.suppress(BlockingIOError):
            written += os.write(server.popen.stdin.fileno(), sent[written : written + 65536])
            last = time.monotonic()
            continue
        time.sleep(0.02)
    used, before = memory(server.pid), cpu(server.pid)
    time.sleep(2)
    spent = cpu(server.pid) - before
    server.close("stdin")
    server.close("stdout")
    server.end(PROMPT)
    expect(written < len(sent), "it reads on")
    expect(used < 250e6 and spent < 1, f"it uses {used / 1e6:.0f} MB, and {spent} s of CPU time in 2 s")


def is_full(pipe):
    unread = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, unread)
    # Its pages are used up before its 65,536 bytes are, as each write begins a page.
    return unread[0] >= 48 * 1024


def blocked_output():
    """A client whose result fills the pipe of its standard output."""
    client = mcpio("call", "echo", f"text=@{LARGE}", *demo_server())
    until(lambda: is_full(client.popen.stdout.fileno()), "a full pipe")
    return client


@contextlib.contextmanager
def blocked_error():
    """A client whose messages fill the pipe of its standard error."""
    fifo = folder() / "error"
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)
    shell = ["sh", "-c", 'exec "$@" 2>"$0"', fifo]
    client = mcpio("--trace", "call", "echo", f"text=@{LARGE}", *demo_server(), prefix=shell)
    try:
        until(lambda: is_full(pipe), "a full pipe")
        yield client
    finally:
        client.kill()
        os.close(pipe)


def expect_end(client, number, code):
    client.popen.send_signal(number)
    try:
        client.popen.wait(PROMPT)
    except subprocess.TimeoutExpired:
        raise Problem(f"it still writes {PROMPT} s after the signal") from None
    finally:
        client.kill()
    expect(client.popen.returncode in (code, -number), client.popen.returncode)


@check("output: a reader that leaves a full pipe ends the client in silence")
def _():
    client = blocked_output()
    client.close("stdout")
    client.end(PROMPT)
    expect(client.code == 0 and not client.err, client)


for number, code in [(signal.SIGTERM, 143), (signal.SIGINT, 130)]:

    @check(f"output: {number.name} ends a client whose output is not read")
    def _(number=number, code=code):
        expect_end(blocked_output(), number, code)


@check("output: SIGTERM ends a client whose standard error is not read")
def _():
    with blocked_error() as client:
        expect_end(client, signal.SIGTERM, 143)


@check("output: a reader that wants one line causes no error")
def _():
    head = Process(["head", "-n", 1], stdin=subprocess.PIPE)
    client = mcpio("demo", stdout=head.popen.stdin)
    head.close("stdin")
    client.end()
    head.end()
    # What the demo reports besides may come before the client notices that its reader has left.
    errors = [line for line in client.err.splitlines() if line.startswith("mcpio:") or "panicked" in line]
    expect(client.code == 0 and not errors, client)


for arguments in [("tools",), ("tools", "--json"), ("call", "echo", "text=hi"), ("watch", "--timeout", 20)]:

    @check(f"output: mcpio {' '.join(map(str, arguments))} reports a full one")
    def _(arguments=arguments):
        with open("/dev/full", "wb") as full:
            client = ended(*arguments, *demo_server(), stdout=full)
        expect(client.code == 3 and "No space left on device" in client.err, client)


for redirections, out in [("<&-", "hi\n"), (">&-", ""), ("2>&-", "hi\n"), ("<&- >&- 2>&-", "")]:

    @check(f"output: a client that starts with {redirections} ends as usual")
    def _(redirections=redirections, out=out):
        shell = ["sh", "-c", f'exec "$@" {redirections}', "-"]
        client = ended("call", "echo", "text=hi", *demo_server(), prefix=shell)
        expect(client.code == 0 and client.out == out, client)


@check("signals: a server ends with its client that was killed")
def _():
    client, server = running_call()
    client.kill()
    until(lambda: not is_alive(server), "the server's end")


for number, code in [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]:

    @check(f"signals: {number.name} in a call ends client and server, with exit code {code}")
    def _(number=number, code=code):
        client, server = running_call()
        client.popen.send_signal(number)
        client.end(PROMPT)
        expect(client.code == code and client.kind() == "interrupted", client)
        expect(not is_alive(server), "the server is left")


@check("signals: a second one kills a server that ignores the first")
def _():
    stubborn = ["--", "sh", "-c", f"trap '' TERM INT; {MCP} serve 2>>{SERVER_ERRORS}; sleep 600"]
    client = mcpio("call", "slow", "seconds=600", *stubborn)
    server = client.child()
    time.sleep(1)
    for _ in range(2):
        client.popen.send_signal(signal.SIGINT)
        # Two within 200 ms count as one.
        time.sleep(0.5)
    client.end(PROMPT)
    expect(client.code == 130 and not is_alive(server), client)


@check("signals: the server of mcpio tap ends with it, and the client reports it")
def _():
    client = mcpio("--json", "call", "slow", "seconds=600", "--", MCP, "tap", "--trace-file", folder() / "a.trace", *demo_server())
    tap = client.child()
    server = until(lambda: children(tap), "a server")[0]
    time.sleep(1)
    os.kill(tap, signal.SIGKILL)
    client.end()
    expect(client.kind() == "connection" and "SIGKILL" in client.out, client)
    until(lambda: not is_alive(server), "the server's end")


@check("signals: a client of mcpio connect reports that the server over HTTP was killed")
def _():
    with Server() as server:
        client = mcpio("--json", "call", "slow", "seconds=600", "--", MCP, "connect", server.url)
        time.sleep(2)
        server.kill()
        client.end()
        expect(client.code == 3 and "ended the connection" in client.out, client)


@check("signals: SIGTERM ends a server over HTTP with a call, a stream, an idle connection and half a head")
def _():
    with Server() as server, server.connect(), server.connect() as partial:
        partial.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
        call, watch = mcpio("--json", "call", "slow", "seconds=600", server.url), mcpio("watch", "demo://clock", server.url)
        time.sleep(2)
        server.popen.send_signal(signal.SIGTERM)
        server.end(PROMPT)
        expect(server.code == 0, server)
        expect(call.end().code == 3, call)
        watch.kill()
