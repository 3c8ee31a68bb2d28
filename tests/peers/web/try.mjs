// Whether a client and a server do their work: `node try.mjs CLIENT.js SERVER.js`, as wasm-bindgen wrote them. Without a
// network: the client's `fetch` is the server's. It prints nothing if all is well.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

async function load(file) {
    const module = await import(pathToFileURL(file));
    await module.default({ module_or_path: await readFile(file.replace(/\.js$/, "_bg.wasm")) });
    return module;
}

// pmcp's client wants a window.
globalThis.window = globalThis;
globalThis.Window = Object;

const [client, server] = process.argv.slice(2);
const { Connection } = await load(client);
const { Server } = await load(server);
const worker = new Server("worker.example");
globalThis.fetch = (request, init) => worker.fetch(new Request(request, init));

// A panic ends no promise.
setTimeout(() => process.exit(2), 10_000).unref();
const connection = await Connection.connect("https://worker.example/mcp");
assert.deepEqual((await connection.tools()).map((tool) => tool.name), ["add"]);
assert.equal((await connection.call("add", { a: 2, b: 3 })).content[0].text, "5");
process.exit(0);
