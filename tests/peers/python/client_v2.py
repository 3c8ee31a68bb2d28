"""A client on the Python SDK 2.x that tries everything a demo server has.

Run: client_v2.py [--era auto|modern|legacy] [--lists] -- COMMAND ARGS… | URL
"""

import asyncio

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from steps import Steps, command_line, expect, expect_names

LATEST = "2026-07-28"


async def try_lists(client, steps, needed):
    with steps.step("list tools") as shown:
        shown["names"] = [tool.name for tool in (await client.list_tools()).tools]
        expect_names(shown["names"], needed["tools"])
    capabilities = client.server_capabilities
    if capabilities.resources or needed["resources"]:
        with steps.step("list resources") as shown:
            shown["uris"] = [str(resource.uri) for resource in (await client.list_resources()).resources]
            expect_names(shown["uris"], needed["resources"])
        with steps.step("list templates") as shown:
            templates = (await client.list_resource_templates()).resource_templates
            shown["templates"] = [template.uri_template for template in templates]
            expect_names(shown["templates"], needed["templates"])
    if capabilities.prompts or needed["prompts"]:
        with steps.step("list prompts") as shown:
            shown["names"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
            expect_names(shown["names"], needed["prompts"])


async def try_tools(client, steps, logged):
    tools = [tool.name for tool in (await client.list_tools()).tools]
    with steps.step("call echo") as shown:
        shown["text"] = (await client.call_tool("echo", {"text": "hello"})).content[0].text
        expect(shown["text"] == "hello", "the text came back changed")
    with steps.step("call add") as shown:
        shown["structured"] = (await client.call_tool("add", {"a": 2, "b": 3})).structured_content
        expect(shown["structured"] == {"sum": 5}, "wrong sum")
    with steps.step("call count") as shown:
        shown["progress"] = []

        async def on_progress(progress, total, message):
            shown["progress"].append([progress, total])

        await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
        expect(shown["progress"] == [[1, 3], [2, 3], [3, 3]], "wrong progress")
    with steps.step("cancel count") as shown:
        with anyio.CancelScope() as scope:

            async def cancel(progress, total, message):
                scope.cancel()

            await client.call_tool("count", {"to": 500}, progress_callback=cancel)
        expect(scope.cancelled_caught, "the call was answered all the same")
        again = (await client.call_tool("echo", {"text": "still here"})).content[0].text
        expect(again == "still here", "the connection broke")
    with steps.step("call fail") as shown:
        shown["isError"] = (await client.call_tool("fail", {})).is_error
        expect(shown["isError"], "fail did not fail")
    with steps.step("call an unknown tool") as shown:
        try:
            shown["isError"] = (await client.call_tool("no-such-tool", {})).is_error
            expect(shown["isError"], "an unknown tool was called")
        except MCPError as error:
            shown["code"] = error.error.code
    if "log" in tools:
        with steps.step("call log") as shown:
            await client.call_tool("log", {"text": "look here"})
            shown["logged"] = logged
            expect("look here" in logged, "no log message arrived")
    for asking in {"ask", "introduce"} & set(tools):
        with steps.step(f"call {asking}") as shown:
            shown["text"] = (await client.call_tool(asking, {})).content[0].text
            expect("blue" in shown["text"], "the answer got lost")
    if "sample" in tools:
        with steps.step("call sample") as shown:
            shown["text"] = (await client.call_tool("sample", {})).content[0].text
            expect("Hello from the model" in shown["text"], "the model's sentence got lost")


async def try_resources(client, steps):
    with steps.step("read text") as shown:
        shown["text"] = (await client.read_resource("demo://greeting")).contents[0].text
        expect(shown["text"], "empty text")
    with steps.step("read blob") as shown:
        content = (await client.read_resource("demo://logo")).contents[0]
        shown["mimeType"] = content.mime_type
        expect(content.blob.startswith("iVBORw0KGgo") and content.mime_type == "image/png", "not a PNG")
    with steps.step("read template") as shown:
        shown["text"] = (await client.read_resource("demo://greeting/Ada")).contents[0].text
        expect("Ada" in shown["text"], "the name got lost")
    with steps.step("read an unknown resource") as shown:
        try:
            await client.read_resource("demo://no-such-resource")
            raise AssertionError("an unknown resource was read")
        except MCPError as error:
            shown["code"] = error.error.code


async def try_prompts(client, steps):
    with steps.step("get prompt") as shown:
        result = await client.get_prompt("greet", {"name": "Ada", "style": "formal"})
        shown["text"] = result.messages[0].content.text
        expect("Ada" in shown["text"], "the name got lost")
    with steps.step("complete prompt argument") as shown:
        reference = types.PromptReference(type="ref/prompt", name="greet")
        result = await client.complete(reference, {"name": "style", "value": ""})
        shown["values"] = result.completion.values
        expect(shown["values"], "no completions")
    with steps.step("complete template variable") as shown:
        reference = types.ResourceTemplateReference(type="ref/resource", uri="demo://greeting/{name}")
        result = await client.complete(reference, {"name": "name", "value": "A"})
        shown["values"] = result.completion.values
        expect(shown["values"], "no completions")


async def answer_question(context, params):
    expect(params.requested_schema["properties"], "an elicitation without a form")
    return types.ElicitResult(action="accept", content={name: "blue" for name in params.requested_schema["properties"]})


async def answer_sampling(context, params):
    text = types.TextContent(type="text", text="Hello from the model")
    return types.CreateMessageResult(role="assistant", content=text, model="test", stop_reason="endTurn")


async def main(options, steps):
    logged = []

    async def on_log(params):
        logged.append(params.data)

    [server, *args] = options.command
    if not server.startswith("http"):
        server = StdioServerParameters(command=server, args=args)
    client = Client(
        server,
        mode=LATEST if options.era == "modern" else options.era,
        read_timeout_seconds=20,
        elicitation_callback=answer_question,
        sampling_callback=answer_sampling,
        logging_callback=on_log,
        log_level="debug",
    )
    with steps.step("connect and close"):
        async with client:
            with steps.step("connect") as shown:
                shown["revision"] = client.protocol_version
                if client.server_info:
                    shown["server"] = client.server_info.name
                modern = client.protocol_version >= LATEST
                expect(options.era == "auto" or modern == (options.era == "modern"), "the wrong era")
            if not modern:
                with steps.step("ping"):
                    await client.send_ping()
            if options.lists:
                await try_lists(client, steps, {"tools": [], "resources": [], "templates": [], "prompts": []})
                return
            if client.server_capabilities.logging and not modern:
                with steps.step("set log level"):
                    await client.set_logging_level("debug")
            needed = {
                "tools": ["echo", "add", "count", "fail"],
                "resources": ["demo://greeting", "demo://logo"],
                "templates": ["demo://greeting/{name}"],
                "prompts": ["greet"],
            }
            await try_lists(client, steps, needed)
            await try_tools(client, steps, logged)
            await try_resources(client, steps)
            await try_prompts(client, steps)


if __name__ == "__main__":
    steps = Steps()
    asyncio.run(main(command_line(), steps))
    steps.finish()
