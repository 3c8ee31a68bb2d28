"""Connections that are reset, half-closed, cut, stalled, slow or too many, between mcpio and a server over HTTP."""

import contextlib
import json
import re
import socket
import time

from processes import MCP, PROMPT, Server, check, cpu, demo_server, descriptors, expect, folder, mcpio, until
from proxy import CALL, Fault, Proxy, reset

ECHO, COUNT, SLOW = ("echo", "text=hi"), ("count", "to=20", "delay_ms=100"), ("slow", "seconds=4")
LOST = {"connection"}
# What happens, on which side, after which bytes, the call, and how it may end.
FAULTS = [
    ("reset in the request", "request", CALL, "reset", ECHO, LOST),
    ("reset after the request", "request", CALL + rb".*\}\}", "reset", SLOW, LOST),
    ("reset in the head of the response", "response", rb"HTTP/1\.1 2", "reset", ECHO, LOST),
    ("reset in the body of the response", "response", rb"\r\n\r\n.{5}", "reset", ECHO, LOST),
    ("reset in a stream of events", "response", rb"data:.*data:.*data:", "reset", COUNT, LOST),
    ("end in the request", "request", CALL, "end", ECHO, LOST | {"http"}),
    ("half-close after the request", "request", CALL + rb".*\}\}", "end", SLOW, LOST | {"ok"}),
    ("end in the head of the response", "response", rb"HTTP/1\.1 2", "end", ECHO, LOST),
    ("truncated body of the response", "response", rb"\r\n\r\n.{5}", "end", ECHO, LOST),
    ("truncated chunks of a stream of events", "response", rb"data:.*data:.*data:", "end", COUNT, LOST),
    ("stalled request", "request", CALL, "stall", ECHO, {"timeout"}),
    ("stalled head of the response", "response", rb"HTTP/1\.1 2", "stall", ECHO, {"timeout"}),
    ("stalled body of the response", "response", rb"\r\n\r\n.{5}", "stall", ECHO, {"timeout"}),
    ("stalled stream of events", "response", rb"data:.*data:.*data:", "stall", COUNT, {"timeout"}),
    ("garbage in place of a head", "response", rb"", b"\0\xff no head\r\n\r\n", ECHO, LOST | {"invalid"}),
    ("a head without an end", "response", rb"", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 4_000_000, ECHO, LOST | {"invalid"}),
    ("garbage in a stream of events", "response", rb"data:.*\n\n", b"no size of a chunk\r\n\r\n", COUNT, LOST | {"invalid"}),
]


def through(proxy, era, timeout, call):
    """A client behind the proxy, once something has happened to its call."""
    client = mcpio("--era", era, "--timeout", timeout, "--json", "call", *call, proxy.url)
    until(lambda: proxy.happened or not client.is_running(), "the fault", 60)
    return client


for era in ("modern", "legacy"):
    for what, side, after, action, call, kinds in FAULTS:
        # Clients of this revision resume a stream that is cut, by the ids of its events.
        if era == "legacy" and call == COUNT and action != "stall":
            kinds = {"ok"}

        @check(f"{era}: {what}: the call ends with {' or '.join(sorted(kinds))}")
        def _(era=era, side=side, after=after, action=action, call=call, kinds=kinds):
            with Server() as server, contextlib.closing(Proxy(server.port, Fault(side, after, action))) as proxy:
                client = through(proxy, era, 5, call)
                server.expect_service()
                client.end()
                # A tool may have effects: no call is sent twice.
                expect(proxy.happened == 1, f"{proxy.happened} calls met the fault:", client)
                expect(client.kind() in kinds, client)
                expect(client.code == 0 or len(client.err) > 20, "no message:", client)

    for what, pause, timeout, call, kinds in [
        ("one byte at a time in both directions", (0.0005, 0.0005), 30, ECHO, {"ok"}),
        ("a stream one byte at a time", (None, 0.001), 30, ("count", "to=5", "delay_ms=0"), {"ok"}),
        ("a slow response within the timeout", (None, 0.01), 30, ECHO, {"ok"}),
        ("a response slower than the timeout", (None, 0.5), 4, ECHO, {"timeout"}),
        ("a request slower than the server's limit", (0.5, None), 60, ECHO, {"connection", "http"}),
    ]:

        @check(f"{era}: {what}: the call ends with {' or '.join(sorted(kinds))}")
        def _(era=era, pause=pause, timeout=timeout, call=call, kinds=kinds):
            with Server() as server, contextlib.closing(Proxy(server.port, pause=pause)) as proxy:
                client = through(proxy, era, timeout, call)
                server.expect_service()
                client.end(timeout + 60)
                expect(proxy.happened > 5, "nothing was slow:", client)
                expect(client.kind() in kinds, client)
                expect(client.seconds < timeout + PROMPT, "late:", client)


HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"


def request(tool, **arguments):
    """A whole tool call of 2026-07-28."""
    client = {"name": "faults", "version": "1"}
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientInfo": client, f"{prefix}clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": CALL.decode(), "params": params}).encode()
    headers = f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
    return HEAD + f"{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def is_closed(connection):
    """Whether the server has closed it, perhaps after an answer."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


PARTIAL = HEAD + b"Content-Length: 1000\r\n"

for what, sent, slow, limit in [
    ("heads", PARTIAL, b"X-Slow: " + b"x" * 600, 10),
    ("bodies", PARTIAL + b"\r\n", b" " * 600, 30),
]:

    @check(f"connections: 50 slow {what} end within the server's limit of {limit} s, and others are served")
    def _(sent=sent, slow=slow, limit=limit):
        with Server() as server, contextlib.ExitStack() as stack:
            before, began = descriptors(server.pid), time.monotonic()
            connections = [stack.enter_context(server.connect()) for _ in range(50)]
            for connection in connections:
                connection.sendall(sent)
            for number in range(600):
                time.sleep(0.2)
                for connection in connections:
                    with contextlib.suppress(OSError):
                        connection.send(slow[number : number + 1])
                connections = [connection for connection in connections if not is_closed(connection)]
                if number == 20:
                    expect(len(connections) == 50, "the limit came too early")
                    server.expect_service()
                if not connections:
                    break
                expect(time.monotonic() - began < limit + PROMPT, f"{len(connections)} connections are still open")
            until(lambda: descriptors(server.pid) <= before, "closed descriptors")
            server.expect_service()


@check("connections: a client that reads no answer is cut off within 30 s, and others are served")
def _():
    with Server() as server, socket.socket() as connection:
        # Small, so that the kernel does not take the answers in place of the client.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        server.expect_service()
        before = descriptors(server.pid)
        connection.settimeout(2)
        with contextlib.suppress(TimeoutError):
            connection.sendall(request("echo", text="x" * 3_500_000) * 4)
        server.expect_service()
        expect(descriptors(server.pid) >= before, "the connection ended early")
        until(lambda: descriptors(server.pid) < before, "a closed connection", 30 + PROMPT)
        server.expect_service()


@check("connections: a whole request followed by a half-close is answered or closed")
def _():
    with Server() as server, server.connect() as connection:
        connection.sendall(request("echo", text="half"))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        expect(not answer or b"half" in answer, answer)
        server.expect_service()


@check("connections: garbage in place of a head is refused at once")
def _():
    with Server() as server:
        # No text, the start of TLS, a line that is too short, one that is too long, and HTTP/2 with a broken frame.
        tls, http2 = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for garbage in [b"\0\xff\r\n\r\n", tls + b"x" * 500, b"GET\r\n\r\n", b"y" * 100_000, http2 + b"\xff" * 100]:
            with server.connect() as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(garbage)
                until(lambda: is_closed(connection), f"refused: {garbage[:20]}")
        server.expect_service()


@check("descriptors: a server without any serves again once connections close, and does not spin")
def _():
    with Server(prefix=["prlimit", "--nofile=40"]) as server:
        connections = [server.connect() for _ in range(100)]
        until(lambda: descriptors(server.pid) >= 39, "a server without descriptors")
        before = cpu(server.pid)
        time.sleep(5)
        spent = cpu(server.pid) - before
        expect(server.is_running(), "the server has ended:", server.err)
        # A connection that it has accepted is served.
        connections[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        expect(b" 200 " in connections[0].recv(100), "an open connection is not served")
        for connection in connections:
            connection.close()
        server.expect_service()
        until(lambda: descriptors(server.pid) < 30, "closed connections")
        expect(spent < 1, f"{spent} s of CPU time in 5 s")


@check("descriptors: a server with a few hundred connections that are reset keeps none of them")
def _():
    with Server() as server:
        server.expect_service()
        before = descriptors(server.pid)
        for _ in range(4):
            connections = [server.connect() for _ in range(100)]
            for number, connection in enumerate(connections):
                connection.sendall([b"", b"P", PARTIAL, PARTIAL + b"\r\n{"][number % 4])
            for connection in connections:
                reset(connection)
        until(lambda: descriptors(server.pid) <= before, "closed descriptors")
        server.expect_service()


@check("descriptors: mcpio servers reports that it has too few, whatever their number")
def _():
    place = folder()
    config = place / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"demo": {"command": str(MCP), "args": ["serve"]}}}))
    options = ("servers", "--json", "--user-config", config, "--state", place / "state")
    for limit in range(4, 32):
        client = mcpio(*options, prefix=["prlimit", f"--nofile={limit}"]).end()
        is_clear = re.search(r"(?i)too many open files", client.err + client.out)
        expect(is_clear if client.code else '"connected"' in client.out, f"with {limit}:", client)


for transport in ("a child", "a server over HTTP"):

    @check(f"descriptors: a client of {transport} succeeds or reports that it has too few, whatever their number")
    def _(transport=transport):
        with Server() as server:
            where = demo_server() if transport == "a child" else [server.url]
            # The dynamic loader needs four, and reports it with exit code 127.
            for limit in range(4, 32):
                prefix = ["prlimit", f"--nofile={limit}"]
                client = mcpio("--timeout", 20, "--json", "call", "echo", "text=hi", *where, prefix=prefix).end()
                is_clear = client.code in (2, 3) and re.search(r"(?i)too many open files", client.err)
                expect(client.kind() == "ok" or is_clear, f"with {limit}:", client)
            expect(client.kind() == "ok", "31 are too few:", client)
