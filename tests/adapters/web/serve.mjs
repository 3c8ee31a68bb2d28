// The worker's server at /mcp of a web server, beside the files of the page: `node serve.mjs MODULES` prints its URL. With the
// name of a module behind it, the server is that module's.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const types = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
const here = fileURLToPath(new URL(".", import.meta.url));

/** A module that bindgen wrote. */
export async function load(modules, name) {
    const module = await import(pathToFileURL(join(modules, `${name}.js`)));
    await module.default({ module_or_path: await readFile(join(modules, `${name}_bg.wasm`)) });
    return module;
}

/** Answers a request of Node by a function from `Request` to `Response`. */
async function answer(call, incoming, outgoing) {
    const gone = new AbortController();
    outgoing.on("close", () => gone.abort());
    const { method, url, headers } = incoming;
    const body = ["GET", "HEAD"].includes(method) ? undefined : Readable.toWeb(incoming);
    const request = new Request(`http://${headers.host}${url}`, { method, headers, body, duplex: "half", signal: gone.signal });
    const response = await call(request).catch(() => undefined);
    if (!response) return outgoing.destroy();
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    const writable = new WritableStream({
        write: (part) => new Promise((written) => outgoing.write(part, written)),
        close: () => outgoing.end(),
    });
    if (!response.body) return outgoing.end();
    await response.body.pipeTo(writable, { signal: gone.signal }).catch(() => outgoing.destroy());
}

export async function serve(modules, module = "server") {
    const { Server } = await load(modules, module);
    const web = createServer(async (incoming, outgoing) => {
        const path = new URL(incoming.url, "http://localhost").pathname;
        if (path === "/mcp") return answer((request) => server.fetch(request), incoming, outgoing);
        if (path === "/moved") return outgoing.writeHead(307, { location: "http://elsewhere.example/mcp" }).end();
        const file = path === "/" ? join(here, "page.html") : join(modules, path.slice(1));
        const content = await readFile(file).catch(() => null);
        outgoing.writeHead(content ? 200 : 404, { "content-type": types[extname(file)] ?? "text/plain" });
        outgoing.end(content);
    });
    await new Promise((ready) => web.listen(0, "127.0.0.1", ready));
    const server = new Server("127.0.0.1");
    return { url: `http://127.0.0.1:${web.address().port}`, close: () => web.close() };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    console.log((await serve(...process.argv.slice(2))).url);
}
