// The client of a web page and the server of a worker, in Node: `node test.mjs MODULES URL`, with the URL of a server in
// another process.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { load, serve } from "./serve.mjs";

const [modules, peer] = process.argv.slice(2);
const { Connection } = await load(modules, "client");
const { Server } = await load(modules, "server");
const { check, Server: CheckedServer } = await load(modules, "check");
const worker = new Server("worker.example");
const network = globalThis.fetch;
const types = [];

/** Calls a worker without a network. */
const inProcess = (worker) => async (url, init) => {
    const response = await worker.fetch(new Request(url, { ...init, duplex: "half" }));
    if (!response.body) return response;
    // Aborting an exchange cancels the body of its answer.
    const pipe = new TransformStream();
    response.body.pipeTo(pipe.writable, { signal: init.signal }).catch(() => {});
    const { status, headers } = response;
    return new Response(pipe.readable, { status, headers });
};

/** Notes the types of answers. */
const noting = (fetch) => async (url, init) => {
    const response = await fetch(url, init);
    types.push(response.headers.get("content-type"));
    return response;
};

const text = (result) => result.content[0].text;

async function until(condition) {
    const end = Date.now() + 20_000;
    while (!(await condition())) {
        assert(Date.now() < end, `this did not become true: ${condition}`);
        await new Promise((soon) => setTimeout(soon, 5));
    }
}

async function checkCalls(connection) {
    assert.deepEqual((await connection.tools()).map((tool) => tool.name), ["add", "steps", "wait", "waiting"]);
    types.length = 0;
    assert.equal(text(await connection.call("add", { a: 2, b: 3 })), "5");
    assert(types.includes("application/json") || types.includes("text/event-stream"), types);

    types.length = 0;
    const reports = [];
    assert.equal(text(await connection.call("steps", {}, (report) => reports.push(report.progress))), "done");
    // A report replaces one that the connection has not carried yet.
    assert.equal(reports.at(-1), 3);
    assert.deepEqual(reports, [...new Set(reports)].sort());
    assert(types.includes("text/event-stream"), types);

    const sums = Array.from({ length: 20 }, (_, number) => connection.call("add", { a: number, b: 1 }));
    assert.deepEqual((await Promise.all(sums)).map(text), Array.from({ length: 20 }, (_, number) => `${number + 1}`));
}

async function checkCancellation(connection) {
    const abort = new AbortController();
    const waiting = async () => text(await connection.call("waiting", {}));
    const call = connection.call("wait", {}, undefined, abort.signal);
    await until(async () => (await waiting()) === "1");
    abort.abort(new Error("enough"));
    await assert.rejects(call, { message: "enough" });
    await until(async () => (await waiting()) === "0");
    await assert.rejects(connection.call("wait", {}, undefined, AbortSignal.abort(new Error("early"))), { message: "early" });
}

/** A server in another process that has what the check calls. */
async function checked() {
    const program = fileURLToPath(new URL("serve.mjs", import.meta.url));
    const server = spawn(process.execPath, [program, modules, "check"], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = await once(server.stdout, "data");
    return { url: `${line}`.trim(), close: () => server.kill() };
}

for (const legacy of [false, true]) {
    const era = legacy ? "a session" : "2026-07-28";
    globalThis.fetch = noting(inProcess(worker));
    const connection = new Connection("https://worker.example/mcp", legacy);
    await checkCalls(connection);
    await checkCancellation(connection);
    await connection.close();
    console.log(`ok   client and server in one process, ${era}`);

    globalThis.fetch = noting(network);
    const site = await serve(modules);
    const remote = new Connection(`${site.url}/mcp`, legacy);
    await checkCalls(remote);
    await checkCancellation(remote);
    await remote.close();
    site.close();
    console.log(`ok   client and server over HTTP, ${era}`);

    const native = new Connection(peer, legacy);
    assert.equal((await native.call("add", { a: 2, b: 3 })).structuredContent.sum, 5);
    await native.close();
    console.log(`ok   client of a server that is no WebAssembly, ${era}`);

    globalThis.fetch = inProcess(new CheckedServer("worker.example"));
    await check("https://worker.example/mcp", legacy, false);
    globalThis.fetch = network;
    for (const fails of [false, true]) {
        const server = await checked();
        await check(`${server.url}/mcp`, legacy, fails);
        server.close();
    }
    console.log(`ok   the duties of a transport, ${era}`);
}
// Node keeps the connections of `fetch` open.
process.exit(0);
