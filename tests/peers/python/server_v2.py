"""The demo server on the Python SDK 2.x: one process speaks both eras.

Run: server_v2.py [--http PORT | --sse PORT]
"""

import asyncio
import base64
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import Completion, CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel
from transport import transport

# One pixel.
LOGO = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# A pause after each progress, so that a client sees it before the result.
PACE_SECONDS = 0.05
STYLES = ["casual", "formal", "pirate"]
NAMES = ["Ada", "Alan", "Grace"]

mcp = MCPServer("python-v2-demo", version="1.0.0", instructions="A server to try a client on.")


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
    return Seen(tenant=(ctx.request_context.meta or {}).get("com.example/tenant"), echoes=echoes)


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


def question() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@mcp.tool()
def ask(answer: Annotated[Colour, Resolve(question)]) -> str:
    """Ask the person for a colour."""
    return f"you said {answer.colour}"


def prompt_for_model() -> Sample:
    text = TextContent(type="text", text="Say hello")
    return Sample([SamplingMessage(role="user", content=text)], max_tokens=100)


@mcp.tool()
def sample(answer: Annotated[CreateMessageResult, Resolve(prompt_for_model)]) -> str:
    """Ask the client's model for a sentence."""
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


if __name__ == "__main__":
    name, port = transport()
    mcp.run(name) if port is None else mcp.run(name, port=port)
