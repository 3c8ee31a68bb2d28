"""A client on the Python SDK 2.x that uses all of the example server `notebook`.

Run: notebook.py [--era auto|modern|legacy] [--stateless] -- COMMAND ARGS… | URL
"""

import asyncio
import time
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, NotificationBinding, ResultClaim
from pydantic import BaseModel
from steps import Steps, command_line, expect, expect_names

LATEST = "2026-07-28"


class Stats(types.Request[types.RequestParams, Literal["com.example/stats"]]):
    method: Literal["com.example/stats"] = "com.example/stats"
    params: types.RequestParams = types.RequestParams()


class RenameParams(types.RequestParams):
    note: str
    to: str


class Rename(types.Request[RenameParams, Literal["com.example/rename"]]):
    """The name of the note travels in the header `Mcp-Name` as well."""

    method: Literal["com.example/rename"] = "com.example/rename"
    params: RenameParams
    name_param = "note"


class Touched(types.Notification[types.NotificationParams, Literal["com.example/touched"]]):
    method: Literal["com.example/touched"] = "com.example/touched"
    params: types.NotificationParams = types.NotificationParams()


class AnyResult(types.Result):
    model_config = {"extra": "allow"}


class Draft(types.Result):
    """A result type of the extension: the draft of a note, which the client may finish."""

    result_type: Literal["com.example/draft"] = "com.example/draft"
    draft: str


class Saved(BaseModel):
    name: str


class Notebook(ClientExtension):
    identifier = "com.example/notebook"

    def __init__(self):
        self.saved = []

    def settings(self):
        return {"drafts": True}

    def claims(self):
        async def resolve(draft, context):
            return types.CallToolResult(content=[types.TextContent(type="text", text=f"finished: {draft.draft}")])

        return [ResultClaim(result_type="com.example/draft", model=Draft, resolve=resolve)]

    def notifications(self):
        async def on_saved(params):
            self.saved.append(params.name)

        return [NotificationBinding(method="com.example/saved", params_type=Saved, handler=on_saved)]


async def eventually(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        expect(time.monotonic() < deadline, what)
        await anyio.sleep(0.02)


async def tool_names(client):
    return [tool.name for tool in (await client.list_tools()).tools]


async def uris(client):
    return [str(resource.uri) for resource in (await client.list_resources()).resources]


async def text(client, name, arguments=None, **options):
    result = await client.call_tool(name, arguments or {}, **options)
    return result.content[0].text


async def stats(client):
    return (await client.session.send_request(Stats(), AnyResult)).model_dump()


async def try_changes(client, steps, seen):
    with steps.step("list before") as shown:
        shown["tools"] = await tool_names(client)
        expect_names(shown["tools"], ["add_note", "index", "whoami", "draft", "summarise", "wait"])
        expect("remove_note" not in shown["tools"], "a disabled tool is listed")
        expect(await uris(client) == ["note://secret"], "there are notes already")
    with steps.step("call a disabled tool") as shown:
        try:
            shown["isError"] = (await client.call_tool("remove_note", {"name": "shopping"})).is_error
            expect(shown["isError"], "a disabled tool was called")
        except MCPError as error:
            shown["code"] = error.error.code
    with steps.step("add a note") as shown:
        shown["text"] = await text(client, "add_note", {"name": "shopping", "text": "bread"})
        await eventually(lambda: {"tools", "resources"} <= set(seen), f"lists that changed: {seen}")
        expect_names(await tool_names(client), ["remove_note"])
        expect_names(await uris(client), ["note://shopping"])
        contents = (await client.read_resource("note://shopping")).contents[0]
        expect(contents.text == "bread", "the note is another")
    with steps.step("change a note") as shown:
        seen.clear()
        await text(client, "add_note", {"name": "shopping", "text": "bread and salt"})
        await eventually(lambda: "note://shopping" in seen, f"a resource was updated: {seen}")
        expect("tools" not in seen, "no list has changed")
    with steps.step("remove a note") as shown:
        seen.clear()
        shown["text"] = await text(client, "remove_note", {"name": "shopping"})
        await eventually(lambda: {"tools", "resources"} <= set(seen), f"lists that changed: {seen}")
        expect("remove_note" not in await tool_names(client), "the tool is still there")
        expect("note://shopping" not in await uris(client), "the note is still there")


async def try_context(client, steps, logged, on_http, stateless):
    with steps.step("call whoami") as shown:
        result = await client.call_tool("whoami", {}, meta={"com.example/trace": "t-1"})
        shown["structured"] = result.structured_content
        expect(result.structured_content["trace"] == "t-1", "the handler does not see the request's metadata")
        expect(bool(result.structured_content["agent"]) == on_http, "the handler does not see the HTTP headers")
        if not stateless:
            await eventually(lambda: ("db", "asked") in logged, f"log messages: {logged}")
    with steps.step("call index") as shown:
        progress = []

        async def on_progress(done, total, message):
            progress.append(done)

        await client.call_tool("index", {"pages": 1000}, progress_callback=on_progress)
        shown["reports"], shown["last"] = len(progress), progress[-1]
        expect(progress[0] == 1 and progress[-1] == 1000, f"first and last: {progress[0]}, {progress[-1]}")
        expect(len(progress) < 200, "a report for each page")
    with steps.step("call summarise too often") as shown:
        results = [await client.call_tool("summarise", {}) for _ in range(3)]
        shown["isError"] = [bool(result.is_error) for result in results]
        shown["text"] = results[-1].content[0].text
        expect(shown["isError"] == [False, False, True], "the third call within a minute is refused")
    if stateless:
        # Without a session, no notification can cancel another request.
        return
    with steps.step("cancel wait") as shown:
        with anyio.CancelScope() as scope:

            async def cancel(done, total, message):
                scope.cancel()

            await client.call_tool("wait", {}, progress_callback=cancel)
        expect(scope.cancelled_caught, "the call was answered all the same")
        for _ in range(100):
            shown["reason"] = (await stats(client))["cancelled"]
            if shown["reason"]:
                break
            await anyio.sleep(0.05)
        expect(shown["reason"], "the handler was not told")


async def try_extension(client, steps, notebook, modern, stateless):
    with steps.step("call draft") as shown:
        shown["text"] = await text(client, "draft")
        expect(shown["text"] == ("finished: Dear all," if modern else "Dear all,"), "another draft")
    with steps.step("request com.example/stats") as shown:
        shown["stats"] = await stats(client)
        expect(stateless or shown["stats"]["added"] >= 1, "the notes got lost")
    with steps.step("notify com.example/touched") as shown:
        before = (await stats(client))["touched"]
        await client.session.send_notification(Touched())
        for _ in range(100):
            shown["touched"] = (await stats(client))["touched"]
            if shown["touched"] > before:
                break
            await anyio.sleep(0.05)
        expect(shown["touched"] == before + 1, "the notification got lost")
    # Extensions are of 2026-07-28.
    if modern and not stateless:
        with steps.step("request com.example/rename") as shown:
            await text(client, "add_note", {"name": "daily", "text": "sweep"})
            rename = Rename(params=RenameParams(note="daily", to="weekly"))
            await client.session.send_request(rename, AnyResult)
            expect_names(await uris(client), ["note://weekly"])
            await text(client, "remove_note", {"name": "weekly"})
    if not stateless:
        with steps.step("receive com.example/saved") as shown:
            await eventually(lambda: "shopping" in notebook.saved, f"saved: {notebook.saved}")
            shown["saved"] = notebook.saved


async def try_rules(client, steps, stateless):
    with steps.step("call burn, which rules deny") as shown:
        expect_names(await tool_names(client), ["burn"])
        result = await client.call_tool("burn", {"password": "hunter22"})
        shown["text"] = result.content[0].text
        expect(result.is_error and shown["text"] == "this notebook does not burn", "it was called")
    with steps.step("read a resource that rules deny") as shown:
        try:
            await client.read_resource("note://secret")
            raise AssertionError("the secret note can be read")
        except MCPError as error:
            shown["code"], shown["message"] = error.error.code, error.error.message
            expect((error.error.code, error.error.message) == (-32600, "that note is secret"), "another error")
    if not stateless:
        with steps.step("call add_note with an argument that rules deny") as shown:
            result = await client.call_tool("add_note", {"name": "secret", "text": "mine"})
            shown["text"] = result.content[0].text
            expect(result.is_error and shown["text"] == "that name is taken", "it was called")
    with steps.step("call draft too often") as shown:
        results = [await client.call_tool("draft", {}) for _ in range(2)]
        shown["isError"] = [bool(result.is_error) for result in results]
        shown["text"] = results[-1].content[0].text
        expect(shown["isError"] == [False, True], "the third call within a minute is denied")
        expect(shown["text"].startswith("too many requests"), "another reason")


async def try_completion(client, steps):
    with steps.step("complete too often") as shown:
        reference = types.PromptReference(type="ref/prompt", name="letter")
        answered, refused = 0, 0

        async def complete():
            nonlocal answered, refused
            try:
                result = await client.complete(reference, {"name": "style", "value": "f"})
                answered += bool(result.completion.values)
                refused += not result.completion.values
            except MCPError:
                refused += 1

        async with anyio.create_task_group() as group:
            for _ in range(80):
                group.start_soon(complete)
        shown["answered"], shown["refused"] = answered, refused
        expect(answered >= 40 and refused > 0, "40 at once are answered, 80 are not")


async def main(options, steps):
    logged, seen, notebook = [], [], Notebook()

    async def on_log(params):
        logged.append((params.logger, params.data))

    async def on_message(message):
        match message:
            case types.ToolListChangedNotification():
                seen.append("tools")
            case types.ResourceListChangedNotification():
                seen.append("resources")
            case types.ResourceUpdatedNotification():
                seen.append(str(message.params.uri))

    [server, *args] = options.command
    on_http = server.startswith("http")
    if not on_http:
        server = StdioServerParameters(command=server, args=args)
    client = Client(
        server,
        mode=LATEST if options.era == "modern" else options.era,
        read_timeout_seconds=20,
        logging_callback=on_log,
        log_level="debug",
        message_handler=on_message,
        extensions=[notebook],
        cache=None,
    )
    async with client:
        modern = client.protocol_version >= LATEST
        stateless = options.stateless
        with steps.step("connect") as shown:
            shown["revision"] = client.protocol_version
            expect(options.era == "auto" or modern == (options.era == "modern"), "the wrong era")
        if not modern and not stateless:
            await client.set_logging_level("debug")
        wanted = ["note://shopping", "note://secret"]
        if stateless:
            pass
        elif modern:
            with steps.step("listen") as shown:
                async with client.listen(
                    tools_list_changed=True, resources_list_changed=True, resource_subscriptions=wanted
                ) as subscription:
                    shown["granted"] = subscription.honored.resource_subscriptions
                    expect(shown["granted"] == wanted[:1], "the secret note can be watched")
                    await try_changes(client, steps, seen)
        else:
            with steps.step("subscribe") as shown:
                await client.subscribe_resource(wanted[0])
                try:
                    await client.subscribe_resource(wanted[1])
                    raise AssertionError("the secret note can be watched")
                except MCPError as error:
                    shown["code"] = error.error.code
            await try_changes(client, steps, seen)
            with steps.step("receive a log message outside of requests"):
                await eventually(lambda: ("notebook", "still here") in logged, f"log messages: {logged}")
        await try_context(client, steps, logged, on_http, stateless)
        await try_extension(client, steps, notebook, modern, stateless)
        await try_rules(client, steps, stateless)
        await try_completion(client, steps)


if __name__ == "__main__":
    steps = Steps()
    asyncio.run(main(command_line(), steps))
    steps.finish()
