// The demo server on the TypeScript SDK 2.x: one process speaks both eras.
// Run: server_v2.mjs [--http PORT]

import { serve } from '@hono/node-server';
import { acceptedContent, completable, createMcpHandler, inputRequired, inputResponse, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import * as z from 'zod';

// A pause after each progress, so that a client sees it before the result.
const PACE_MS = 50;

// One pixel.
const LOGO = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const STYLES = ['casual', 'formal', 'pirate'];
const NAMES = ['Ada', 'Alan', 'Grace'];

const text = (text) => ({ content: [{ type: 'text', text }] });
const startingWith = (known) => (value) => known.filter((name) => name.startsWith(value ?? ''));

// How often `echo` was called.
let echoes = 0;

function demoServer() {
    const server = new McpServer(
        { name: 'typescript-v2-demo', version: '1.0.0' },
        { capabilities: { logging: {} }, instructions: 'A server to try a client on.' }
    );

    server.registerTool('echo', { description: 'Give the text back.', inputSchema: z.object({ text: z.string() }) }, (args) => {
        echoes += 1;
        return text(args.text);
    });

    server.registerTool(
        'seen',
        {
            description: 'Tell what the server has seen: an entry of the metadata of this request, and the calls of echo.',
            inputSchema: z.object({}),
            outputSchema: z.object({ tenant: z.string().nullable(), echoes: z.number() })
        },
        (_, ctx) => ({ content: [], structuredContent: { tenant: ctx.mcpReq._meta?.['com.example/tenant'] ?? null, echoes } })
    );

    server.registerTool(
        'add',
        {
            description: 'Add two numbers; the sum is structured.',
            inputSchema: z.object({ a: z.number(), b: z.number() }),
            outputSchema: z.object({ sum: z.number() })
        },
        ({ a, b }) => ({ ...text(`${a + b}`), structuredContent: { sum: a + b } })
    );

    server.registerTool(
        'count',
        { description: 'Count from 1, reporting progress at each step.', inputSchema: z.object({ to: z.number().int() }) },
        async ({ to }, ctx) => {
            const progressToken = ctx.mcpReq._meta?.progressToken;
            for (let progress = 1; progress <= to && progressToken !== undefined; progress++) {
                const params = { progressToken, progress, total: to, message: `${progress} of ${to}` };
                await ctx.mcpReq.notify({ method: 'notifications/progress', params });
                await setTimeout(PACE_MS, undefined, { signal: ctx.mcpReq.signal });
            }
            return text(`counted to ${to}`);
        }
    );

    server.registerTool('fail', { description: 'Fail on purpose.' }, () => ({ ...text('this tool always fails'), isError: true }));

    server.registerTool(
        'log',
        { description: 'Send the text as a log message at level info.', inputSchema: z.object({ text: z.string() }) },
        async (args, ctx) => {
            await ctx.mcpReq.log('info', args.text);
            return text('logged');
        }
    );

    const colour = z.object({ colour: z.string() });
    server.registerTool('ask', { description: 'Ask the person for a colour.' }, (ctx) => {
        const answer = acceptedContent(ctx.mcpReq.inputResponses, 'colour', colour);
        if (answer) return text(`you said ${answer.colour}`);
        const question = inputRequired.elicit({ message: 'Which colour?', requestedSchema: colour });
        return inputRequired({ inputRequests: { colour: question } });
    });

    server.registerTool('sample', { description: "Ask the client's model for a sentence." }, (ctx) => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'sentence');
        if (answer.kind === 'sampling') return text(`the model said ${answer.result.content.text}`);
        const messages = [{ role: 'user', content: { type: 'text', text: 'Say hello' } }];
        return inputRequired({ inputRequests: { sentence: inputRequired.createMessage({ messages, maxTokens: 100 }) } });
    });

    server.registerResource('greeting', 'demo://greeting', { description: 'A greeting.', mimeType: 'text/plain' }, (uri) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'Hello, world!' }]
    }));

    server.registerResource('logo', 'demo://logo', { description: 'A picture.', mimeType: 'image/png' }, (uri) => ({
        contents: [{ uri: uri.href, mimeType: 'image/png', blob: LOGO }]
    }));

    server.registerResource(
        'greeting_for',
        new ResourceTemplate('demo://greeting/{name}', { list: undefined, complete: { name: startingWith(NAMES) } }),
        { description: 'A greeting by name.', mimeType: 'text/plain' },
        (uri, { name }) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `Hello, ${name}!` }] })
    );

    const argsSchema = z.object({
        name: completable(z.string(), startingWith(NAMES)),
        style: completable(z.string(), startingWith(STYLES)).optional()
    });
    server.registerPrompt('greet', { description: 'Ask for a greeting.', argsSchema }, ({ name, style }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name} in a ${style ?? 'casual'} way.` } }]
    }));

    return server;
}

const { http } = parseArgs({ options: { http: { type: 'string' } } }).values;
if (http) {
    const handler = createMcpHandler(demoServer);
    serve({ fetch: (request) => handler.fetch(request), hostname: '127.0.0.1', port: Number(http) });
} else {
    serveStdio(demoServer);
}
