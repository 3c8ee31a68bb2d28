#!/usr/bin/env python3
"""Checks an expression over a program's output; if it is false, prints the output and exits 1.

Run: holds.py EXPRESSION STDOUT-FILE STDERR-FILE

In the expression `out` is standard output as JSON, `lines` its lines each as JSON, `err` standard error as text.
"""

import json
import sys
from pathlib import Path


def names(things):
    """The names of tools or prompts."""
    return [thing["name"] for thing in things]


def uris(things):
    return [thing["uri"] for thing in things]


def text(result):
    """The text of a tool's result, a resource or a prompt."""
    parts = result.get("content") or result.get("contents") or [m["content"] for m in result.get("messages", [])]
    return "\n".join(part["text"] for part in parts if "text" in part)


def audited(stderr):
    """The calls, prompts and resources in the audit of the notebook: who asked, for what, and how it ended."""
    lines = [line.removeprefix("audit: ") for line in stderr.splitlines() if line.startswith("audit: ")]
    records = [json.loads(line) for line in lines]
    return {(record["peer"], record["item"], record["outcome"]) for record in records if record["item"]}


def parsed(stdout):
    """The whole output as JSON, and each line as JSON; None for text that is not JSON."""
    for split in ([stdout], stdout.splitlines()):
        try:
            yield [json.loads(part) for part in split]
        except ValueError:
            yield None


def main():
    expression, stdout, stderr = sys.argv[1], *(Path(file).read_text(errors="replace") for file in sys.argv[2:])
    whole, lines = parsed(stdout)
    out = whole[0] if whole else None
    known = {"out": out, "lines": lines, "err": stderr}
    known |= {"names": names, "uris": uris, "text": text, "audited": audited}
    try:
        held = eval(expression, known)
        why = "does not hold"
    except Exception as error:
        held, why = False, f"raises {type(error).__name__}: {error}"
    if not held:
        print(f"{expression} {why} for {stdout.strip()[:300] or stderr.strip()[-300:] or 'nothing'}")
        sys.exit(1)


if __name__ == "__main__":
    main()
