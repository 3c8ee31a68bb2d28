// A client on the TypeScript SDK 1.x (legacy revisions only) that tries everything a demo server has.
// Run: client_v1.mjs [--lists] -- COMMAND ARGS… | URL | sse+URL

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    LoggingMessageNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { answerQuestion, answerSampling, commandLine, step, tryEverything } from './steps.mjs';

const { command, args, lists } = commandLine(['legacy']);
const logged = [];

const client = new Client({ name: 'typescript-v1', version: '1.0.0' }, { capabilities: { elicitation: {}, sampling: {} } });
client.setRequestHandler(ElicitRequestSchema, answerQuestion);
client.setRequestHandler(CreateMessageRequestSchema, answerSampling);
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logged.push(params.data));

/** A child process, or a server at a URL: `sse+http://…` by HTTP+SSE, `http://…` by Streamable HTTP. */
function transportTo(server) {
    if (server.startsWith('sse+http')) return new SSEClientTransport(new URL(server.slice('sse+'.length)));
    if (server.startsWith('http')) return new StreamableHTTPClientTransport(new URL(server));
    return new StdioClientTransport({ command: server, args });
}

const transport = transportTo(command);
const connected = await step('connect', async (shown) => {
    const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (revision) => {
        shown.revision = revision;
        setProtocolVersion?.(revision);
    };
    await client.connect(transport, { timeout: 20_000 });
    shown.server = client.getServerVersion()?.name;
});
if (connected) {
    await step('ping', () => client.ping());
    if (client.getServerCapabilities()?.logging) await step('set log level', () => client.setLoggingLevel('debug'));
    const callTool = (name, values, options) => client.callTool({ name, arguments: values }, undefined, options);
    await tryEverything(client, { lists, callTool, logged });
}
await step('close', async () => {
    await transport.terminateSession?.();
    await client.close();
});
