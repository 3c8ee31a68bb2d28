#!/usr/bin/env python3
"""Shows how the servers of servers.txt treat edge cases, raw line by raw line, as Markdown on stdout.

Run: probe.py [NAME…]                 servers of servers.txt, all by default (tests/peers/install first)
     probe.py [NAME…] -- COMMAND…     and another server, called "ours"

Each case starts a new server, sends it a few lines one after the other, and shows the lines received after each.
`behaviour.md` is this program's output; README.md summarises it.
"""

import json
import math
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent
SILENCE = 3.0  # seconds without an answer that count as silence
START = 10.0  # seconds for the first answer of a process
MORE = 0.25  # seconds to wait for further lines after an answer
SHOWN = 420  # characters of an answer that are shown
AT_ONCE = 3  # servers that are probed at the same time

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NO_CAPABILITIES = {key: META[key] for key in META if not key.endswith("clientCapabilities")}
UNKNOWN_REVISION = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}


def message(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def request(id, method, **params):
    return {"id": id, **message(method, **params)}


def initialize(revision="2025-11-25", id="i"):
    client = {"name": "probe", "version": "1"}
    return request(id, "initialize", protocolVersion=revision, capabilities={}, clientInfo=client)


DISCOVER = request("d", "server/discover", _meta=META)
PING = request("p", "ping")
# The `initialize` exchange; its answer is not shown.
HANDSHAKE = "handshake"

INTRODUCTION = """# How each server behaves, line by line

Written by `probe.py`; do not edit. Below each sent line are the received lines, unchanged, except that
`…` stands for the capabilities and identity in the answer to `initialize`, for tools, and for the ends of long lines."""

# The steps to send, by the name of the case. Each step is a message, a batch, raw bytes of a line, or a
# tuple of them that goes out in one write.
CASES = {
    "server/discover first, then initialize": [DISCOVER, initialize(), PING],
    "server/discover and initialize in one write": [(DISCOVER, initialize())],
    "server/discover after initialize": [HANDSHAKE, DISCOVER, PING],
    "server/discover without _meta": [request("d", "server/discover"), PING],
    "server/discover without clientCapabilities": [request("d", "server/discover", _meta=NO_CAPABILITIES)],
    "server/discover of an unknown revision": [request("d", "server/discover", _meta=UNKNOWN_REVISION)],
    "modern tools/list as the first message": [request("t", "tools/list", _meta=META)],
    "modern requests after server/discover": [
        DISCOVER,
        request(1, "ping", _meta=META),
        request(2, "no/such", _meta=META),
        request(3, "tools/call", name="no-such-tool", arguments={}, _meta=META),
        request(4, "resources/read", uri="demo://no-such", _meta=META),
        request(5, "logging/setLevel", level="debug", _meta=META),
        request("l", "subscriptions/listen", notifications={"toolsListChanged": True}, _meta=META),
        message("notifications/cancelled", requestId="l", _meta=META),
    ],
    "bare tools/list before initialize": [request("t", "tools/list"), initialize()],
    "ping before initialize": [PING],
    "initialize with 2024-11-05": [initialize("2024-11-05")],
    "initialize with 2026-07-28": [initialize("2026-07-28")],
    "initialize with 2099-01-01": [initialize("2099-01-01")],
    "initialize twice": [HANDSHAKE, initialize(id="again"), PING],
    "a batch at 2025-03-26": [initialize("2025-03-26"), [request(1, "ping"), request(2, "tools/list")], PING],
    "unknown method, tool and resource": [
        HANDSHAKE,
        request(1, "no/such"),
        request(2, "tools/call", name="no-such-tool", arguments={}),
        request(3, "resources/read", uri="demo://no-such"),
    ],
    "odd ids": [HANDSHAKE, request(0, "ping"), request("", "ping"), request(None, "ping"), request(1.5, "ping")],
    "broken lines": [
        HANDSHAKE,
        b"not json",
        b"",
        b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r',
        b'{"jsonrpc":"2.0","id":"utf8","method":"ping","params":{"_meta":{"x":"\xff"}}}',
        b'{"jsonrpc":"2.0","id":"cut","method":"pi',
        PING,
    ],
}


class Server:
    def __init__(self, command):
        self.lines, self.errors = queue.Queue(), []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, step):
        parts = step if isinstance(step, tuple) else (step,)
        lines = (part if isinstance(part, bytes) else json.dumps(part).encode() for part in parts)
        try:
            self.process.stdin.write(b"".join(line + b"\n" for line in lines))
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answers will say that it has gone

    def shake_hands(self):
        self.send(initialize())
        self.answers(START)
        self.send(message("notifications/initialized"))

    def answers(self, patience, expected=1):
        """The lines that come within `patience` seconds and shortly after, and whether the server exited."""
        found, deadline = [], time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                self.lines.put(None)
                found.append(f"*stdout closed, exit {self.exit_within(2)}*")
                break
            if b"notifications/tools/list_changed" in line:
                continue  # `everything` sends one by itself after each handshake
            found.append(shorten(abridge(line.decode(errors="replace").rstrip("\n"))))
            if len(found) >= expected:
                deadline = time.monotonic() + MORE
        return found or ["*silence*"]

    def exit_within(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()


def abridge(text):
    """Without the long parts of an InitializeResult and of lists, which are similar everywhere."""
    try:
        message = json.loads(text)
        result = message["result"]
    except (ValueError, KeyError, TypeError):
        return text
    if "tools" in result:
        result["tools"] = ["…"]
    if "protocolVersion" in result:
        result.pop("instructions", None)
        result.update(capabilities="…", serverInfo="…")
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)


def shorten(text):
    return "`" + (text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)").replace("`", "'") + "`"


def show(step):
    """A short description of a sent step."""
    if isinstance(step, tuple):
        return ", ".join(map(show, step))
    if isinstance(step, list):
        return f"[{', '.join(map(show, step))}]"
    if isinstance(step, bytes):
        return f"`{str(step)[2:-1]}`"
    return f"`{step['method']}`" + (f" id `{json.dumps(step['id'])}`" if "id" in step else "")


def run_case(command, steps):
    """Sends the steps to a fresh server; returns Markdown lines of the sent and received messages."""
    server, patience, lines = Server(command), START, []
    for step in steps:
        if step == HANDSHAKE:
            server.shake_hands()
        else:
            server.send(step)
            answers = server.answers(patience, expected=len(step) if isinstance(step, tuple) else 1)
            lines += [f"- {show(step)}", *(f"  - {answer}" for answer in answers)]
        patience = SILENCE
    server.kill()
    return tuple(lines)


def run_leaving(command):
    """How long the server takes to answer and to exit after its input ends or SIGTERM, and its stderr."""
    ways = {
        "stdin closed": lambda server: server.process.stdin.close(),
        "SIGTERM": lambda server: server.process.terminate(),
        "SIGINT": lambda server: server.process.send_signal(signal.SIGINT),
    }
    lines = []
    for name, leave in ways.items():
        server = Server(command)
        server.shake_hands()
        time.sleep(MORE)
        began = time.monotonic()
        leave(server)
        code = server.exit_within(5)
        took = time.monotonic() - began
        lines.append(f"- {name}: " + ("still there after 5 s" if code is None else f"exit {code} within {ceil(took)} s"))
        server.kill()
    noise = [line.decode(errors="replace").rstrip() for line in server.errors]
    lines.append(f"- stderr before that: {len(noise) or 'no'} lines")
    lines += [f"  - {shorten(line)}" for line in noise]
    return tuple(lines)


def ceil(seconds):
    """Rounded up to half a second, so that two runs give the same text."""
    return math.ceil(seconds * 2) / 2


def commands(scratch):
    """The servers of servers.txt by name."""
    places = {"CACHE": HERE / ".cache", "PEERS": HERE, "SCRATCH": scratch}
    lines = (HERE / "servers.txt").read_text().splitlines()
    entries = (line.split(maxsplit=2) for line in lines if line and not line.startswith("#"))
    return {name: Template(command).substitute(places).split() for name, _eras, command in entries}


def print_case(title, names, transcripts):
    """One section; servers that behaved alike share a paragraph."""
    print(f"\n## {title}")
    alike = {}
    for name, transcript in zip(names, transcripts):
        alike.setdefault(transcript, []).append(name)
    for transcript, group in alike.items():
        print(f"\n**{', '.join(group)}**\n")
        print("\n".join(transcript))


def main():
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(AT_ONCE) as pool:
        subprocess.run(["git", "init", "--quiet", scratch], check=True)
        known, names, ours = commands(scratch), sys.argv[1:], []
        if "--" in names:
            mark = names.index("--")
            names, ours = names[:mark], ["ours"]
            known["ours"] = sys.argv[mark + 2 :]
        names = names + ours or list(known)
        print(INTRODUCTION)
        for title, steps in CASES.items():
            transcripts = pool.map(lambda name: run_case(known[name], steps), names)
            print_case(title, names, (tidy(transcript, scratch) for transcript in transcripts))
        leaving = pool.map(lambda name: run_leaving(known[name]), names)
        print_case("leaving after initialize", names, (tidy(transcript, scratch) for transcript in leaving))


def tidy(transcript, scratch):
    """Removes the folders of this machine from the text."""
    return tuple(line.replace(scratch, "$SCRATCH").replace(str(HERE), "$PEERS") for line in transcript)


if __name__ == "__main__":
    main()
