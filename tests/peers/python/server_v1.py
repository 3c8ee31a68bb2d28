"""The demo server on the Python SDK 1.x: legacy revisions only.

Run: server_v1.py [--http PORT | --sse PORT | --websocket PORT]
"""

import asyncio
import base64

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.websocket import websocket_server
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from transport import transport

# One pixel.
LOGO = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# A pause after each progress, so that a client sees it before the result.
PACE_SECONDS = 0.05
STYLES = ["casual", "formal", "pirate"]
NAMES = ["Ada", "Alan", "Grace"]

mcp = FastMCP("python-v1-demo", instructions="A server to try a client on.")


# How often `echo` was called.
echoes = 0


class Sum(BaseModel):
    sum: int


class Seen(BaseModel):
    tenant: str | None
    echoes: int


class Colour(BaseModel):
    colour: str


@mcp.tool()
def echo(text: str) -> str:
    """Give the text back."""
    global echoes
    echoes += 1
    return text


@mcp.tool()
def seen(ctx: Context) -> Seen:
    """Tell what the server has seen: an entry of the metadata of this request, and the calls of echo."""
    meta = ctx.request_context.meta
    return Seen(tenant=meta and (meta.model_extra or {}).get("com.example/tenant"), echoes=echoes)


@mcp.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers; the sum is structured."""
    return Sum(sum=a + b)


@mcp.tool()
async def count(to: int, ctx: Context) -> str:
    """Count from 1, reporting progress at each step."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"{step} of {to}")
        await asyncio.sleep(PACE_SECONDS)
    return f"counted to {to}"


@mcp.tool()
def fail() -> str:
    """Fail on purpose."""
    raise ToolError("this tool always fails")


@mcp.tool()
async def log(text: str, ctx: Context) -> str:
    """Send the text as a log message at level info."""
    await ctx.info(text)
    return "logged"


@mcp.tool()
async def ask(ctx: Context) -> str:
    """Ask the person for a colour."""
    answer = await ctx.elicit("Which colour?", Colour)
    return f"you said {answer.data.colour}" if answer.action == "accept" else answer.action


@mcp.tool()
async def sample(ctx: Context) -> str:
    """Ask the client's model for a sentence."""
    text = TextContent(type="text", text="Say hello")
    message = SamplingMessage(role="user", content=text)
    answer = await ctx.session.create_message([message], max_tokens=100)
    return f"the model said {answer.content.text}"


@mcp.resource("demo://greeting", mime_type="text/plain")
def greeting() -> str:
    """A greeting."""
    return "Hello, world!"


@mcp.resource("demo://logo", mime_type="image/png")
def logo() -> bytes:
    """A picture."""
    return LOGO


@mcp.resource("demo://greeting/{name}", mime_type="text/plain")
def greeting_for(name: str) -> str:
    """A greeting by name."""
    return f"Hello, {name}!"


@mcp.prompt()
def greet(name: str, style: str = "casual") -> str:
    """Ask for a greeting."""
    return f"Greet {name} in a {style} way."


@mcp.completion()
async def complete(ref, argument, context) -> Completion:
    known = {"style": STYLES, "name": NAMES}.get(argument.name, [])
    return Completion(values=[value for value in known if value.startswith(argument.value)])


def serve_websocket(port):
    """Serves WebSocket connections at /ws."""
    server = mcp._mcp_server

    async def serve(scope, receive, send):
        async with websocket_server(scope, receive, send) as streams:
            await server.run(*streams, server.create_initialization_options())

    uvicorn.run(Starlette(routes=[WebSocketRoute("/ws", endpoint=Endpoint(serve))]), port=port)


class Endpoint:
    """An ASGI application: Starlette passes functions a WebSocket instead."""

    def __init__(self, serve):
        self.serve = serve

    async def __call__(self, scope, receive, send):
        await self.serve(scope, receive, send)


if __name__ == "__main__":
    name, port = transport([("websocket", "WebSocket at /ws")])
    if name == "websocket":
        serve_websocket(port)
    else:
        if port is not None:
            mcp.settings.port = port
        mcp.run(name)
