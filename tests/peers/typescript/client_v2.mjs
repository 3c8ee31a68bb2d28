// A client on the TypeScript SDK 2.x that tries everything a demo server has.
// Run: client_v2.mjs [--era auto|modern|legacy] [--lists] -- COMMAND ARGS… | URL

import assert from 'node:assert/strict';
import { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answerQuestion, answerSampling, commandLine, step, tryEverything } from './steps.mjs';

const { era, command, args, lists } = commandLine(['auto', 'modern', 'legacy']);
const logged = [];

const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
const client = new Client(
    { name: 'typescript-v2', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} }, sampling: {} }, versionNegotiation: { mode, probe: { timeoutMs: 10_000 } } }
);
client.setRequestHandler('elicitation/create', answerQuestion);
client.setRequestHandler('sampling/createMessage', answerSampling);
client.setNotificationHandler('notifications/message', ({ params }) => void logged.push(params.data));

const connected = await step('connect', async (shown) => {
    const url = command.startsWith('http');
    const transport = url ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args });
    await client.connect(transport, { timeout: 20_000 });
    shown.revision = client.getNegotiatedProtocolVersion();
    shown.server = client.getServerVersion()?.name;
    if (era !== 'auto') assert.equal(client.getProtocolEra(), era);
});
if (connected) {
    const modern = client.getProtocolEra() === 'modern';
    if (!modern) {
        await step('ping', () => client.ping());
        if (client.getServerCapabilities()?.logging) await step('set log level', () => client.setLoggingLevel('debug'));
    }
    const meta = modern ? { _meta: { [LOG_LEVEL_META_KEY]: 'debug' } } : {};
    const callTool = (name, values, options) => client.callTool({ name, arguments: values, ...meta }, options);
    await tryEverything(client, { lists, callTool, logged });
}
await step('close', () => client.close());
