"""Shared parts of the two Python clients: the command line, and one JSON line on stdout per step."""

import argparse
import json
import sys
from contextlib import contextmanager

ERAS = ("auto", "modern", "legacy")


def command_line(eras=ERAS):
    """Reads `[--era ERA] [--lists] [--stateless] -- COMMAND ARGS…`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=eras, default=eras[0])
    parser.add_argument("--lists", action="store_true", help="only connect and list: for servers that are not the demo")
    parser.add_argument("--stateless", action="store_true", help="of a notebook: leave out what needs a session")
    parser.add_argument("command", nargs="+", help="the server, after --")
    return parser.parse_args()


class Steps:
    def __init__(self):
        self.failed = False

    @contextmanager
    def step(self, name):
        """Runs one step: prints the yielded dict, which the body fills; an exception is a failure."""
        shown = {}
        try:
            yield shown
            line = {"step": name, "ok": True, **shown}
        except Exception as error:
            self.failed = True
            line = {"step": name, "ok": False, **shown, "error": describe(error)}
        print(json.dumps(line), flush=True)

    def finish(self):
        sys.exit(1 if self.failed else 0)


def describe(error):
    """Names an exception, and the members of an exception group."""
    inner = "; ".join(describe(part) for part in getattr(error, "exceptions", ()))
    return f"{type(error).__name__}: {error}" + (f" ({inner})" if inner else "")


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_names(found, needed):
    missing = sorted(set(needed) - set(found))
    expect(not missing, f"missing {missing} in {found}")
