"""A server on standard input and output that misbehaves in a call of its only tool.

Run: child.py BEHAVIOUR
"""

import json
import os
import sys
import time

behaviour = sys.argv[1]


def answer(id, result):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")
    sys.stdout.flush()


def misbehave(id):
    if behaviour == "close-output":
        os.close(1)
        time.sleep(600)
    if behaviour == "close-input":
        os.close(0)
        time.sleep(600)
    if behaviour == "close-stderr":
        os.close(2)
    if behaviour == "flood-stderr":
        # 64 MB, as lines and as a line without an end.
        for _ in range(512):
            os.write(2, b"x" * 65535 + b"\n")
        for _ in range(512):
            os.write(2, b"y" * 65536)
    if behaviour == "flood-output":
        # A line without an end: the client's limit ends it.
        while True:
            os.write(1, b"z" * 65536)
    if behaviour == "garbage":
        os.write(1, b"\x00\xff this is no message\n[1,2\n")
    answer(id, {"content": [{"type": "text", "text": "done"}]})


for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    if method == "initialize":
        info = {"name": "child", "version": "1"}
        answer(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        answer(id, {"tools": [{"name": "act", "inputSchema": schema}]})
        if behaviour == "ignore-input":
            time.sleep(600)
        if behaviour == "close-input":
            misbehave(id)
    elif method == "tools/call":
        misbehave(id)
    elif id is not None:
        error = {"code": -32601, "message": "this method is unknown"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}) + "\n")
        sys.stdout.flush()
