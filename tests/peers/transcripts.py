"""The transcripts that `differential` sends: tables of messages, by the name of the line."""

import json

from probe import META, NO_CAPABILITIES, UNKNOWN_REVISION, initialize, message, request

MODERN, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
INFO, LOG_LEVEL = "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/logLevel"
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
CLIENT = {"name": "probe", "version": "1"}
ECHO = {"name": "echo", "arguments": {"text": "x"}}
ACCEPTED = {"action": "accept", "content": {}}
LISTEN = {"notifications": {"toolsListChanged": True}}
COMPLETION = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "style", "value": "c"}}
TEMPLATE = {"type": "ref/resource", "uri": "demo://greeting/{name}"}
ABSENT, NUMBER = object(), object()  # no member, and a number that no other line has

# Valid parameters of each method, for both eras.
METHODS = {
    "ping": {},
    "tools/list": {},
    "tools/call": ECHO,
    "prompts/list": {},
    "prompts/get": {"name": "greet", "arguments": {"name": "Ada"}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "demo://greeting"},
    "completion/complete": COMPLETION,
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "demo://greeting"},
    "resources/unsubscribe": {"uri": "demo://greeting"},
    "server/discover": {},
    "subscriptions/listen": LISTEN,
}

# Further parameters of methods, by what is special about them.
PARAMETERS = {
    "tools/call": {
        "unknown tool": {"name": "no-such-tool", "arguments": {}},
        "empty name": {"name": "", "arguments": {}},
        "argument missing": {"name": "echo", "arguments": {}},
        "argument of another type": {"name": "echo", "arguments": {"text": 7}},
        "argument unknown": {"name": "echo", "arguments": {"text": "x", "more": 1}},
        "structured": {"name": "add", "arguments": {"a": 1, "b": 2}},
        "integer as 1.0": {"name": "add", "arguments": {"a": 1.0, "b": 2.0}},
        "fraction": {"name": "add", "arguments": {"a": 1.5, "b": 2}},
        "failing tool": {"name": "fail", "arguments": {}},
        "failing tool without arguments": {"name": "fail"},
        "task": {**ECHO, "task": {"ttl": 1000}},
        "asks a client without elicitation": {"name": "ask", "arguments": {}},
        "inputResponses not asked": {**ECHO, "inputResponses": {"x": ACCEPTED}},
        "inputResponses array": {"name": "ask", "arguments": {}, "inputResponses": []},
        "requestState not asked": {**ECHO, "requestState": "forged"},
        "requestState number": {**ECHO, "requestState": 7},
    },
    "prompts/get": {
        "unknown prompt": {"name": "no-such-prompt"},
        "argument missing": {"name": "greet", "arguments": {}},
        "argument number": {"name": "greet", "arguments": {"name": 7}},
        "argument unknown": {"name": "greet", "arguments": {"name": "Ada", "more": "x"}},
    },
    "resources/read": {
        "unknown resource": {"uri": "demo://no-such"},
        "template": {"uri": "demo://greeting/Ada"},
        "template, empty variable": {"uri": "demo://greeting/"},
        "template, escaped slash": {"uri": "demo://greeting/a%2Fb"},
        "binary": {"uri": "demo://logo"},
        "no URI": {"uri": "not a uri"},
        "empty URI": {"uri": ""},
    },
    "completion/complete": {
        "unknown prompt": {**COMPLETION, "ref": {"type": "ref/prompt", "name": "no-such-prompt"}},
        "unknown argument": {**COMPLETION, "argument": {"name": "no-such", "value": ""}},
        "unknown type of reference": {**COMPLETION, "ref": {"type": "ref/other", "name": "greet"}},
        "template": {"ref": TEMPLATE, "argument": {"name": "name", "value": "A"}},
        "unknown template": {"ref": {**TEMPLATE, "uri": "demo://no/{x}"}, "argument": {"name": "x", "value": ""}},
        "value number": {**COMPLETION, "argument": {"name": "style", "value": 7}},
        "value missing": {**COMPLETION, "argument": {"name": "style"}},
        "context": {**COMPLETION, "context": {"arguments": {"name": "Ada"}}},
        "context of another type": {**COMPLETION, "context": {"arguments": {"name": 7}}},
    },
    "logging/setLevel": {"unknown level": {"level": "loud"}, "level in capitals": {"level": "INFO"}},
    "resources/subscribe": {"unknown resource": {"uri": "demo://no-such"}},
    "subscriptions/listen": {
        "empty filter": {"notifications": {}},
        "filter of another type": {"notifications": {"toolsListChanged": "yes"}},
        "unknown notification": {"notifications": {"moonPhaseChanged": True}},
        "resources": {"notifications": {"resourceSubscriptions": ["demo://greeting"]}},
        "resources of another type": {"notifications": {"resourceSubscriptions": "demo://greeting"}},
    },
}
for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]:
    PARAMETERS[method] = {
        "unknown cursor": {"cursor": "no-such-page"},
        "empty cursor": {"cursor": ""},
        "cursor number": {"cursor": 7},
        "cursor null": {"cursor": None},
    }

UNKNOWN_METHODS = ["no/such", "", "tools", "rpc.discover", "initialized", "notifications/initialized", "sampling/createMessage",
                   "elicitation/create", "roots/list", "tasks/list", "tasks/get", "tasks/cancel", "tasks/result", "tasks/update"]

# As JSON text. The integers are 2^53 + 1 and 2^63.
IDS = ["0", "-1", "9007199254740993", "9223372036854775808", "1e2", "1.0", "1.5", '""', '"é"', '"' + "x" * 1000 + '"',
       "null", "true", "{}", "[]"]

PROGRESS_TOKENS = ["p", "", 0, -1, 2**53 + 1, 1.5, None, True, {}, []]


def without(members, name):
    return {key: members[key] for key in members if key != name}


def variants(params):
    """Valid parameters, and such that each have one thing wrong or one too many."""
    yield "valid", params
    for name in params:
        yield f"{name} missing", without(params, name)
        yield f"{name} null", {**params, name: None}
        yield f"{name} number", {**params, name: 7}
    yield "unknown member", {**params, "com.example/more": 1}
    yield "_meta null", {**params, "_meta": None}
    yield "_meta array", {**params, "_meta": []}
    yield "params absent", ABSENT
    yield "params null", None
    yield "params array", []
    yield "params string", "x"


def requests(methods, meta):
    """Each method with each variant of its parameters, as (name, method, parameters)."""
    for method in methods:
        for name, params in [*variants(METHODS[method]), *PARAMETERS.get(method, {}).items()]:
            if meta and isinstance(params, dict) and "_meta" not in params:
                params = {**params, "_meta": meta}
            yield f"{method}, {name}", method, params


class Transcript:
    """Messages that open a session, a request that shows that the server still reads, and the lines to compare."""

    def __init__(self, name, opening, fence, table, is_fresh=False):
        self.name, self.opening, self.fence, self.table, self.is_fresh = name, opening, fence, table, is_fresh
        self.is_modern = "modern" in name

    def lines(self):
        """Each line with its name; requests without an id get one that no other has."""
        for number, (name, step) in enumerate(self.table, 1):
            yield f"{self.name}/{name}", step if isinstance(step, (tuple, bytes, list)) else with_id(step, number)


def with_id(step, number):
    return {key: number if value is NUMBER else value for key, value in step.items()}


def call(method, params=ABSENT, id=NUMBER):
    parts = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return {key: value for key, value in parts.items() if value is not ABSENT}


def note(method, params=ABSENT):
    return call(method, params, ABSENT)


def raw(text):
    return text.encode()


def by_method(methods, meta=None):
    return [(name, call(method, params)) for name, method, params in requests(methods, meta)]


def envelopes(params):
    """Ids, members of the envelope, notifications and responses, whose era the parameters decide."""
    text = json.dumps(params)
    body = f'"method":"tools/list","params":{text}'
    lines = [(f"ids, {id[:19]}", raw(f'{{"jsonrpc":"2.0","id":{id},{body}}}')) for id in IDS]
    for name, members in {
        "jsonrpc missing": f'"id":"e1",{body}',
        "jsonrpc 1.0": f'"jsonrpc":"1.0","id":"e2",{body}',
        "jsonrpc number": f'"jsonrpc":2.0,"id":"e3",{body}',
        "method missing": f'"jsonrpc":"2.0","id":"e4","params":{text}',
        "method null": f'"jsonrpc":"2.0","id":"e5","method":null,"params":{text}',
        "method number": f'"jsonrpc":"2.0","id":"e6","method":7,"params":{text}',
        "unknown member": f'"jsonrpc":"2.0","id":"e7",{body},"more":1',
        "result beside method": f'"jsonrpc":"2.0","id":"e8",{body},"result":{{}}',
        "result null beside method": f'"jsonrpc":"2.0","id":"e9",{body},"result":null',
        "id twice": f'"jsonrpc":"2.0","id":"e10","id":"e11",{body}',
        "method twice": f'"jsonrpc":"2.0","id":"e12","method":"no/such",{body}',
        "escaped names": f'"jsonrpc":"2.0","\\u0069d":"e13","m\\u0065thod":"tools\\/list","params":{text}',
        "members in another order": f'"params":{text},"method":"tools/list","id":"e14","jsonrpc":"2.0"',
        "names in capitals": f'"JSONRPC":"2.0","ID":"e15","METHOD":"tools/list","params":{text}',
    }.items():
        lines.append((f"envelope, {name}", raw(f"{{{members}}}")))
    for name, step in {
        "unknown": note("notifications/no-such", params),
        "no prefix": note("no/such", params),
        "method of a request": note("tools/list", params),
        "call of a tool": note("tools/call", {**ECHO, **params}),
        "initialize": note("initialize", {**initialize()["params"], **params}),
        "initialized again": note("notifications/initialized", params),
        "initialized without params": note("notifications/initialized"),
        "initialized, params array": note("notifications/initialized", []),
        "roots/list_changed": note("notifications/roots/list_changed", params),
        "progress not asked": note("notifications/progress", {"progressToken": "none", "progress": 1, **params}),
        "progress without token": note("notifications/progress", {"progress": 1, **params}),
        "message of a client": note("notifications/message", {"level": "info", "data": "x", **params}),
        "cancelled, unknown id": note("notifications/cancelled", {"requestId": "none", **params}),
        "cancelled, no id": note("notifications/cancelled", params),
        "cancelled, id null": note("notifications/cancelled", {"requestId": None, **params}),
        "cancelled, id object": note("notifications/cancelled", {"requestId": {}, **params}),
        "cancelled, params array": note("notifications/cancelled", []),
    }.items():
        lines.append((f"notifications, {name}", step))
    for name, text_ in {
        "result": '"id":"none","result":{}',
        "error": '"id":"none","error":{"code":-32603,"message":"x"}',
        "result and error": '"id":"none","result":{},"error":{"code":-32603,"message":"x"}',
        "error, id null": '"id":null,"error":{"code":-32603,"message":"x"}',
        "error without id": '"error":{"code":-32603,"message":"x"}',
        "error without code": '"id":"none","error":{"message":"x"}',
        "result without id": '"result":{}',
        "result null": '"id":"none","result":null',
        "nothing but an id": '"id":"none"',
    }.items():
        lines.append((f"responses, {name}", raw(f'{{"jsonrpc":"2.0",{text_}}}')))
    counting = {"name": "count", "arguments": {"to": 8, "delay_ms": 50}, **params}
    short = {**counting, "arguments": {"to": 2, "delay_ms": 5}}

    def cancelled(id, other):
        return (call("tools/call", counting, id), note("notifications/cancelled", {"requestId": other, **params}))

    lines += [
        ("cancelled, own request", cancelled("c1", "c1")),
        ("cancelled, number for a string", cancelled("1017", 1017)),
        ("cancelled, string for a number", cancelled(1018, "1018")),
        ("cancelled, finished request", note("notifications/cancelled", {"requestId": "e14", **params})),
        ("ids, same id in flight", (call("tools/call", short, "same"), call("tools/list", params, "same"))),
        ("ids, id of a finished request", call("tools/list", params, "e14")),
        ("ids, number and its string in flight", (call("tools/list", params, 4711), call("tools/list", params, "4711"))),
    ]
    for token in PROGRESS_TOKENS:
        meta = {**params.get("_meta", {}), "progressToken": token}
        lines.append((f"progress, token {json.dumps(token)}", call("tools/call", {**short, "_meta": meta})))
    return lines


def framing(params):
    """Lines that are not JSON in UTF-8, and JSON that a reader may refuse."""
    members = json.dumps(params)[1:-1]

    def extra(id, value):
        """A request with a further member in its parameters."""
        head = f'{{"jsonrpc":"2.0","id":"{id}","method":"tools/list","params":{{{members}{"," if members else ""}"x":'
        return head.encode() + value + b"}}"

    def listing(id, before=b"", after=b""):
        return before + extra(id, b"1") + after

    def nested(id, depth):
        return extra(id, b"[" * depth + b"]" * depth)

    return [
        (f"framing, {name}", line)
        for name, line in {
            "not JSON": b"not json",
            "blank line": b"",
            "only spaces": b"  \t ",
            "carriage return": listing("f1", after=b"\r"),
            "spaces around": listing("f2", before=b" \t", after=b"  "),
            "byte order mark": listing("f3", before=b"\xef\xbb\xbf"),
            "text after the object": listing("f4", after=b" x"),
            "two objects": listing("f5", after=listing("f6")),
            "cut object": listing("f7")[:-3],
            "trailing comma": listing("f8")[:-1] + b",}",
            "comment": listing("f9", before=b"/* x */"),
            "single quotes": listing("f10").replace(b'"', b"'"),
            "invalid UTF-8": extra("f11", b'"\xff"'),
            "overlong UTF-8": extra("f12", b'"\xc0\xaf"'),
            "encoded surrogate": extra("f13", b'"\xed\xa0\x80"'),
            "escaped lone surrogate": extra("f14", b'"\\ud800"'),
            "escaped NUL": extra("f15", b'"\\u0000"'),
            "raw NUL": extra("f16", b'"\x00"'),
            "raw tab in a string": extra("f17", b'"\t"'),
            "unknown escape": extra("f18", b'"\\x41"'),
            "NaN": extra("f19", b"NaN"),
            "number too large": extra("f20", b"1e400"),
            "number with leading zero": extra("f21", b"01"),
            "integer of 400 digits": extra("f22", b"1" * 400),
            "member twice in params": extra("f23", b'1,"x":2'),
            "depth 100": nested("f24", 100),
            "depth 400": nested("f25", 400),
            "depth 5000": nested("f26", 5000),
            "depth 100000": nested("f27", 100000),
            "a string of 1 MB": extra("f28", b'"' + b"x" * 1_000_000 + b'"'),
            "a string": b'"x"',
            "a number": b"7",
            "null": b"null",
            "true": b"true",
            "empty object": b"{}",
        }.items()
    ]


def batches(params):
    def listing(id):
        return call("tools/list", params, id)

    return [
        (f"batches, {name}", batch)
        for name, batch in {
            "two requests": [listing("b1"), listing("b2")],
            "request and notification": [listing("b3"), note("notifications/no-such", params)],
            "one request": [listing("b4")],
            "notifications": [note("notifications/no-such", params)],
            "empty": [],
            "a number": [1],
            "request and number": [listing("b5"), 1],
            "nested": [[listing("b6")]],
            "same id twice": [listing("b7"), listing("b7")],
            "unknown method": [call("no/such", params, "b8")],
            "response": [{"jsonrpc": "2.0", "id": "none", "result": {}}],
            "initialize": [initialize("2025-03-26", "b9")],
        }.items()
    ]


def metadata():
    """Faulty metadata of requests of 2026-07-28, and what servers do by it: log, ask for input, notify."""
    metas = {
        "no protocolVersion": without(META, MODERN),
        "no clientInfo": without(META, INFO),
        "no clientCapabilities": NO_CAPABILITIES,
        "empty": {},
        "unknown revision": UNKNOWN_REVISION,
        "unknown revision, no clientCapabilities": {MODERN: "2099-01-01"},
        "legacy revision": {**META, MODERN: "2025-11-25"},
        "empty revision": {**META, MODERN: ""},
        "revision number": {**META, MODERN: 20260728},
        "revision null": {**META, MODERN: None},
        "clientInfo null": {**META, INFO: None},
        "clientInfo string": {**META, INFO: "probe"},
        "clientInfo without version": {**META, INFO: {"name": "probe"}},
        "clientInfo with unknown member": {**META, INFO: {**CLIENT, "more": 1}},
        "clientCapabilities null": {**META, CAPABILITIES: None},
        "clientCapabilities array": {**META, CAPABILITIES: []},
        "clientCapabilities, unknown": {**META, CAPABILITIES: {"moon": {}}},
        "clientCapabilities, roots number": {**META, CAPABILITIES: {"roots": 7}},
        "logLevel info": {**META, LOG_LEVEL: "info"},
        "logLevel unknown": {**META, LOG_LEVEL: "loud"},
        "logLevel null": {**META, LOG_LEVEL: None},
        "traceparent malformed": {**META, "traceparent": "x"},
        "traceparent number": {**META, "traceparent": 7},
        "unknown key": {**META, "com.example/x": {"y": [1]}},
        "malformed key": {**META, "//": 1, "": 2},
    }
    lines = [(f"_meta, {name}", call("tools/list", {"_meta": meta})) for name, meta in metas.items()]
    for name in ["no protocolVersion", "unknown revision", "legacy revision", "no clientInfo", "clientCapabilities null"]:
        lines.append((f"_meta of server/discover, {name}", call("server/discover", {"_meta": metas[name]})))
        lines.append((f"_meta of no/such, {name}", call("no/such", {"_meta": metas[name]})))
    log = {"name": "log", "arguments": {"text": "x", "to": 1}}
    elicits = {**META, CAPABILITIES: {"elicitation": {"form": {}}}}
    ask = {"name": "ask", "arguments": {}, "_meta": elicits}
    urls, any_mode = ({**META, CAPABILITIES: {"elicitation": modes}} for modes in [{"url": {}}, {}])
    tasks = {**META, CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    listen = call("subscriptions/listen", {**LISTEN, "_meta": META}, "l1")
    cancel = note("notifications/cancelled", {"requestId": "l1", "_meta": META})
    return lines + [
        ("logging, no level", call("tools/call", {**log, "_meta": META})),
        ("logging, info", call("tools/call", {**log, "_meta": metas["logLevel info"]})),
        ("logging, error", call("tools/call", {**log, "_meta": {**META, LOG_LEVEL: "error"}})),
        ("input, asks", call("tools/call", ask)),
        ("input, elicitation without modes", call("tools/call", {**ask, "_meta": any_mode})),
        ("input, only URLs", call("tools/call", {**ask, "_meta": urls})),
        ("input, unknown key", call("tools/call", {**ask, "inputResponses": {"none": ACCEPTED}})),
        ("input, forged state", call("tools/call", {**ask, "requestState": "forged", "inputResponses": {}})),
        ("tasks/get, extension declared", call("tasks/get", {"taskId": "none", "_meta": tasks})),
        ("listen, twice the same id", (listen, listen)),
        ("listen, cancelled", cancel),
        ("listen, cancelled again", cancel),
        ("listen, id again", listen),
    ]


def first():
    """First messages of a process."""
    valid = initialize()["params"]
    parameters = {
        **{date: {**valid, "protocolVersion": date} for date in [*REVISIONS, "2026-07-28", "2099-01-01", "1.0"]},
        "revision number": {**valid, "protocolVersion": 7},
        "revision missing": without(valid, "protocolVersion"),
        "capabilities missing": without(valid, "capabilities"),
        "capabilities null": {**valid, "capabilities": None},
        "capabilities, unknown": {**valid, "capabilities": {"moon": {}, "experimental": {"x": {}}}},
        "clientInfo missing": without(valid, "clientInfo"),
        "clientInfo without version": {**valid, "clientInfo": {"name": "probe"}},
        "clientInfo with unknown member": {**valid, "clientInfo": {**CLIENT, "more": 1}},
        "unknown member": {**valid, "more": 1},
        "modern _meta": {**valid, "_meta": META},
        "params empty": {},
        "params absent": ABSENT,
        "params array": [],
    }
    lines = [(f"initialize, {name}", call("initialize", params)) for name, params in parameters.items()]
    return lines + [
        ("initialize, no id", note("initialize", valid)),
        ("initialize, id null", call("initialize", valid, None)),
        ("initialize, in a batch", [initialize("2025-03-26")]),
        ("initialize twice at once", (initialize(id="i1"), initialize(id="i2"))),
        ("initialize, cancelled", (initialize(), note("notifications/cancelled", {"requestId": "i"}))),
        ("initialize, tools/list at once", (initialize(), call("tools/list", {}, "t"))),
        ("initialize, call at once", (initialize(), call("tools/call", ECHO, "t"))),
        ("ping", call("ping")),
        ("bare tools/list", call("tools/list", {})),
        ("bare tools/call", call("tools/call", ECHO)),
        ("bare no/such", call("no/such")),
        ("bare server/discover", call("server/discover", {})),
        ("bare logging/setLevel", call("logging/setLevel", {"level": "info"})),
        ("notifications/initialized", note("notifications/initialized")),
        ("notifications/initialized, then tools/list", (note("notifications/initialized"), call("tools/list", {}, "t"))),
        ("not JSON", b"not json"),
        ("response", {"jsonrpc": "2.0", "id": 1, "result": {}}),
    ]


def first_modern():
    """The same, with the metadata of 2026-07-28."""
    return [
        ("tools/list", call("tools/list", {"_meta": META})),
        ("ping", call("ping", {"_meta": META})),
        ("tools/list, unknown revision", call("tools/list", {"_meta": UNKNOWN_REVISION})),
        ("server/discover", call("server/discover", {"_meta": META})),
        ("server/discover, unknown revision", call("server/discover", {"_meta": UNKNOWN_REVISION})),
        ("server/discover, then initialize", (call("server/discover", {"_meta": META}, "d"), initialize())),
        ("tools/list, then initialize", (call("tools/list", {"_meta": META}, "d"), initialize())),
        ("tools/list, then bare", (call("tools/list", {"_meta": META}, "d"), call("tools/list", {}, "t"))),
        ("bare tools/list, then modern", (call("tools/list", {}, "t"), call("tools/list", {"_meta": META}, "d"))),
        ("batch", [call("tools/list", {"_meta": META}, "d")]),
    ]


def mixed():
    """Messages of the other era in a legacy session."""
    return [
        ("server/discover", call("server/discover", {"_meta": META})),
        ("tools/list", call("tools/list", {"_meta": META})),
        ("unknown revision", call("tools/list", {"_meta": UNKNOWN_REVISION})),
        ("ping", call("ping", {"_meta": META})),
        ("listen", call("subscriptions/listen", {**LISTEN, "_meta": META})),
        ("initialize again", call("initialize", initialize()["params"])),
        ("initialize, another revision", call("initialize", initialize("2025-03-26")["params"])),
        ("legacy tools/list", call("tools/list", {})),
    ]


PING = message("ping")
DISCOVER = message("server/discover", _meta=META)
# Some servers choose their era at the first request after `server/discover`.
DISCOVERED = [{**DISCOVER, "id": "d1"}, request("d2", "tools/list", _meta=META)]
INITIALIZED = message("notifications/initialized")
LOGS = {"name": "log", "arguments": {"text": "x", "to": 1}}


def handshake(revision="2025-11-25", **capabilities):
    step = initialize(revision)
    step["params"]["capabilities"] = capabilities
    return [step, INITIALIZED]


def logging():
    """A tool that logs at level info, after each way to set the level."""
    for level in ["debug", "info", "error"]:
        setting = call("logging/setLevel", {"level": level}, f"s-{level}")
        yield f"logging, level {level}", (setting, call("tools/call", LOGS, f"l-{level}"))


def unknown_methods(params, *more):
    return [(f"unknown method {name}", call(name, params)) for name in [*UNKNOWN_METHODS, *more]]


MODERN_META = {"_meta": META}
TRANSCRIPTS = [
    Transcript("first", [], PING, first(), is_fresh=True),
    Transcript("first modern", [], PING, first_modern(), is_fresh=True),
    Transcript("legacy", handshake(), PING, [*by_method(METHODS), *unknown_methods({})]),
    Transcript("legacy", handshake(), PING, envelopes({})),
    Transcript("legacy", handshake(), PING, [*framing({}), *logging()]),
    Transcript("legacy", handshake(elicitation={}), PING, [("elicitation", call("tools/call", {"name": "ask", "arguments": {}}))]),
    Transcript("modern after initialize", handshake(), PING, mixed()),
    *(Transcript(revision, handshake(revision), PING, batches({})) for revision in REVISIONS),
    Transcript("modern", DISCOVERED, DISCOVER, [*by_method(METHODS, META), *unknown_methods(MODERN_META, "initialize")]),
    Transcript("modern", DISCOVERED, DISCOVER, metadata()),
    Transcript("modern", DISCOVERED, DISCOVER, envelopes(MODERN_META)),
    Transcript("modern", DISCOVERED, DISCOVER, framing(MODERN_META)),
    Transcript("modern", DISCOVERED, DISCOVER, batches(MODERN_META)),
]
