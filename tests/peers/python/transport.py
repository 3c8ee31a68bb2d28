"""Selects a server's transport: stdio, or HTTP or WebSocket on a port of the loopback interface."""

import argparse


def transport(more=()):
    """Reads `[--http PORT | --sse PORT]`, or the options of `more`; returns the SDK's name of the transport, and the port, if any."""
    parser = argparse.ArgumentParser()
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--http", type=int, metavar="PORT", help="Streamable HTTP at /mcp")
    choice.add_argument("--sse", type=int, metavar="PORT", help="HTTP+SSE of 2024-11-05 at /sse")
    for name, help in more:
        choice.add_argument(f"--{name}", type=int, metavar="PORT", help=help)
    options = parser.parse_args()
    if options.http is not None:
        return "streamable-http", options.http
    if options.sse is not None:
        return "sse", options.sse
    for name, _ in more:
        if (port := getattr(options, name)) is not None:
            return name, port
    return "stdio", None
