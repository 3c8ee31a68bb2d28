"""A client on the Python SDK 1.x (legacy revisions only) that tries everything a demo server has.

Run: client_v1.py [--lists] -- COMMAND ARGS… | URL | sse+URL, where a URL of ws: is a WebSocket
"""

import asyncio
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.websocket import websocket_client
from pydantic import AnyUrl
from steps import Steps, command_line, expect, expect_names


async def try_lists(session, capabilities, steps, needed):
    with steps.step("list tools") as shown:
        shown["names"] = [tool.name for tool in (await session.list_tools()).tools]
        expect_names(shown["names"], needed["tools"])
    if capabilities.resources or needed["resources"]:
        with steps.step("list resources") as shown:
            shown["uris"] = [str(resource.uri) for resource in (await session.list_resources()).resources]
            expect_names(shown["uris"], needed["resources"])
        with steps.step("list templates") as shown:
            templates = (await session.list_resource_templates()).resourceTemplates
            shown["templates"] = [template.uriTemplate for template in templates]
            expect_names(shown["templates"], needed["templates"])
    if capabilities.prompts or needed["prompts"]:
        with steps.step("list prompts") as shown:
            shown["names"] = [prompt.name for prompt in (await session.list_prompts()).prompts]
            expect_names(shown["names"], needed["prompts"])


async def try_tools(session, steps, logged):
    tools = [tool.name for tool in (await session.list_tools()).tools]
    with steps.step("call echo") as shown:
        shown["text"] = (await session.call_tool("echo", {"text": "hello"})).content[0].text
        expect(shown["text"] == "hello", "the text came back changed")
    with steps.step("call add") as shown:
        shown["structured"] = (await session.call_tool("add", {"a": 2, "b": 3})).structuredContent
        expect(shown["structured"] == {"sum": 5}, "wrong sum")
    with steps.step("call count") as shown:
        shown["progress"] = []

        async def on_progress(progress, total, message):
            shown["progress"].append([progress, total])

        await session.call_tool("count", {"to": 3}, progress_callback=on_progress)
        expect(shown["progress"] == [[1, 3], [2, 3], [3, 3]], "wrong progress")
    with steps.step("call fail") as shown:
        shown["isError"] = (await session.call_tool("fail", {})).isError
        expect(shown["isError"], "fail did not fail")
    with steps.step("call an unknown tool") as shown:
        try:
            shown["isError"] = (await session.call_tool("no-such-tool", {})).isError
            expect(shown["isError"], "an unknown tool was called")
        except McpError as error:
            shown["code"] = error.error.code
    if "log" in tools:
        with steps.step("call log") as shown:
            await session.call_tool("log", {"text": "look here"})
            shown["logged"] = logged
            expect("look here" in logged, "no log message arrived")
    for asking in {"ask", "introduce"} & set(tools):
        with steps.step(f"call {asking}") as shown:
            shown["text"] = (await session.call_tool(asking, {})).content[0].text
            expect("blue" in shown["text"], "the answer got lost")
    if "sample" in tools:
        with steps.step("call sample") as shown:
            shown["text"] = (await session.call_tool("sample", {})).content[0].text
            expect("Hello from the model" in shown["text"], "the model's sentence got lost")


async def try_resources(session, steps):
    with steps.step("read text") as shown:
        shown["text"] = (await session.read_resource(AnyUrl("demo://greeting"))).contents[0].text
        expect(shown["text"], "empty text")
    with steps.step("read blob") as shown:
        content = (await session.read_resource(AnyUrl("demo://logo"))).contents[0]
        shown["mimeType"] = content.mimeType
        expect(content.blob.startswith("iVBORw0KGgo") and content.mimeType == "image/png", "not a PNG")
    with steps.step("read template") as shown:
        shown["text"] = (await session.read_resource(AnyUrl("demo://greeting/Ada"))).contents[0].text
        expect("Ada" in shown["text"], "the name got lost")
    with steps.step("read an unknown resource") as shown:
        try:
            await session.read_resource(AnyUrl("demo://no-such-resource"))
            raise AssertionError("an unknown resource was read")
        except McpError as error:
            shown["code"] = error.error.code


async def try_prompts(session, steps):
    with steps.step("get prompt") as shown:
        result = await session.get_prompt("greet", {"name": "Ada", "style": "formal"})
        shown["text"] = result.messages[0].content.text
        expect("Ada" in shown["text"], "the name got lost")
    with steps.step("complete prompt argument") as shown:
        reference = types.PromptReference(type="ref/prompt", name="greet")
        result = await session.complete(reference, {"name": "style", "value": ""})
        shown["values"] = result.completion.values
        expect(shown["values"], "no completions")
    with steps.step("complete template variable") as shown:
        reference = types.ResourceTemplateReference(type="ref/resource", uri="demo://greeting/{name}")
        result = await session.complete(reference, {"name": "name", "value": "A"})
        shown["values"] = result.completion.values
        expect(shown["values"], "no completions")


async def answer_question(context, params):
    expect(params.requestedSchema["properties"], "an elicitation without a form")
    return types.ElicitResult(action="accept", content={name: "blue" for name in params.requestedSchema["properties"]})


async def answer_sampling(context, params):
    text = types.TextContent(type="text", text="Hello from the model")
    return types.CreateMessageResult(role="assistant", content=text, model="test", stopReason="endTurn")


def connect(server, *args):
    """A child process, or a server at a URL: `sse+http://…` by HTTP+SSE, `http://…` by Streamable HTTP, `ws://…`."""
    if server.startswith("ws"):
        return websocket_client(server)
    if server.startswith("sse+http"):
        return sse_client(server.removeprefix("sse+"))
    if server.startswith("http"):
        return streamable_http_client(server)
    return stdio_client(StdioServerParameters(command=server, args=list(args)))


async def main(options, steps):
    logged = []

    async def on_log(params):
        logged.append(params.data)

    callbacks = {
        "read_timeout_seconds": timedelta(seconds=20),
        "elicitation_callback": answer_question,
        "sampling_callback": answer_sampling,
        "logging_callback": on_log,
    }
    with steps.step("connect and close"):
        async with connect(*options.command) as streams, ClientSession(*streams[:2], **callbacks) as session:
            with steps.step("connect") as shown:
                hello = await session.initialize()
                shown["revision"] = hello.protocolVersion
                shown["server"] = hello.serverInfo.name
            with steps.step("ping"):
                await session.send_ping()
            if options.lists:
                needed = {"tools": [], "resources": [], "templates": [], "prompts": []}
                await try_lists(session, hello.capabilities, steps, needed)
                return
            if hello.capabilities.logging:
                with steps.step("set log level"):
                    await session.set_logging_level("debug")
            needed = {
                "tools": ["echo", "add", "count", "fail"],
                "resources": ["demo://greeting", "demo://logo"],
                "templates": ["demo://greeting/{name}"],
                "prompts": ["greet"],
            }
            await try_lists(session, hello.capabilities, steps, needed)
            await try_tools(session, steps, logged)
            await try_resources(session, steps)
            await try_prompts(session, steps)


if __name__ == "__main__":
    steps = Steps()
    asyncio.run(main(command_line(["legacy"]), steps))
    steps.finish()
