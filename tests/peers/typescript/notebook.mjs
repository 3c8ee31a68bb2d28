// A client on the TypeScript SDK 2.x that uses all of the example server `notebook`.
// Run: notebook.mjs [--era auto|modern|legacy] [--stateless] -- COMMAND ARGS… | URL

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { commandLine, step } from './steps.mjs';

const { era, command, args, stateless } = commandLine(['auto', 'modern', 'legacy']);
const onHttp = command.startsWith('http');
const logged = [];
const saved = [];
let seen = [];

/** The schema of any value, for custom methods. */
const any = { '~standard': { version: 1, vendor: 'notebook', validate: (value) => ({ value }) } };

const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
const client = new Client(
    { name: 'typescript-v2', version: '1.0.0' },
    { capabilities: { extensions: { 'com.example/notebook': {} } }, versionNegotiation: { mode, probe: { timeoutMs: 10_000 } } }
);
client.setNotificationHandler('notifications/message', ({ params }) => void logged.push([params.logger, params.data]));
client.setNotificationHandler('notifications/tools/list_changed', () => void seen.push('tools'));
client.setNotificationHandler('notifications/resources/list_changed', () => void seen.push('resources'));
client.setNotificationHandler('notifications/resources/updated', ({ params }) => void seen.push(params.uri));
client.setNotificationHandler('com.example/saved', { params: any }, (params) => void saved.push(params.name));

async function eventually(condition, what) {
    const deadline = Date.now() + 10_000;
    while (!(await condition())) {
        assert.ok(Date.now() < deadline, `${what}: ${JSON.stringify(seen)}`);
        await sleep(20);
    }
}

const connected = await step('connect', async (shown) => {
    const transport = onHttp ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args });
    await client.connect(transport, { timeout: 20_000 });
    shown.revision = client.getNegotiatedProtocolVersion();
    if (era !== 'auto') assert.equal(client.getProtocolEra(), era);
});

const modern = connected && client.getProtocolEra() === 'modern';
const meta = modern ? { _meta: { [LOG_LEVEL_META_KEY]: 'debug' } } : {};
const call = (name, values = {}, options) => client.callTool({ name, arguments: values, ...meta }, options);
const text = async (name, values, options) => (await call(name, values, options)).content[0].text;
const toolNames = async () => (await client.listTools()).tools.map((tool) => tool.name);
const uris = async () => (await client.listResources()).resources.map((resource) => resource.uri);
const stats = () => client.request({ method: 'com.example/stats' }, any);

async function tryChanges() {
    await step('list before', async (shown) => {
        shown.tools = await toolNames();
        for (const name of ['add_note', 'index', 'whoami', 'draft', 'summarise', 'wait']) assert.ok(shown.tools.includes(name), name);
        assert.ok(!shown.tools.includes('remove_note'), 'a disabled tool is listed');
        assert.deepEqual(await uris(), ['note://secret']);
    });
    await step('call a disabled tool', async (shown) => {
        const answer = await call('remove_note', { name: 'shopping' }).catch((error) => error);
        shown.code = answer.code;
        assert.ok(answer.isError || Number.isInteger(answer.code), 'a disabled tool was called');
    });
    await step('add a note', async (shown) => {
        shown.text = await text('add_note', { name: 'shopping', text: 'bread' });
        await eventually(() => seen.includes('tools') && seen.includes('resources'), 'lists that changed');
        assert.ok((await toolNames()).includes('remove_note'));
        assert.ok((await uris()).includes('note://shopping'));
        assert.equal((await client.readResource({ uri: 'note://shopping' })).contents[0].text, 'bread');
    });
    await step('change a note', async () => {
        seen = [];
        await call('add_note', { name: 'shopping', text: 'bread and salt' });
        await eventually(() => seen.includes('note://shopping'), 'a resource was updated');
        assert.ok(!seen.includes('tools'), 'no list has changed');
    });
    await step('remove a note', async (shown) => {
        seen = [];
        shown.text = await text('remove_note', { name: 'shopping' });
        await eventually(() => seen.includes('tools') && seen.includes('resources'), 'lists that changed');
        assert.ok(!(await toolNames()).includes('remove_note'), 'the tool is still there');
    });
}

async function tryContext() {
    await step('call whoami', async (shown) => {
        const result = await client.callTool({ name: 'whoami', arguments: {}, _meta: { ...meta._meta, 'com.example/trace': 't-1' } });
        shown.structured = result.structuredContent;
        assert.equal(shown.structured.trace, 't-1');
        assert.equal(Boolean(shown.structured.agent), onHttp);
        if (!stateless) await eventually(() => logged.some(([logger, data]) => logger === 'db' && data === 'asked'), 'log messages');
    });
    await step('call index', async (shown) => {
        const progress = [];
        await call('index', { pages: 1000 }, { onprogress: ({ progress: done }) => progress.push(done) });
        [shown.reports, shown.first, shown.last] = [progress.length, progress[0], progress.at(-1)];
        assert.equal(shown.first, 1);
        // This SDK loses a report that arrives in one read with the result.
        assert.ok(shown.reports >= 2 && shown.reports < 200, 'a report for each page');
    });
    await step('call summarise too often', async (shown) => {
        const results = [];
        for (let count = 0; count < 3; count += 1) results.push(await call('summarise'));
        shown.isError = results.map((result) => Boolean(result.isError));
        shown.text = results.at(-1).content[0].text;
        assert.deepEqual(shown.isError, [false, false, true]);
    });
    // Without a session, no notification can cancel another request.
    if (stateless) return;
    await step('cancel wait', async (shown) => {
        const abort = new AbortController();
        const options = { signal: abort.signal, onprogress: () => abort.abort('the user has left') };
        shown.settled = await call('wait', {}, options).then(() => 'answered', () => 'cancelled');
        assert.equal(shown.settled, 'cancelled');
        await eventually(async () => (shown.reason = (await stats()).cancelled), 'the reason of the cancellation');
    });
}

async function tryExtension() {
    await step('call draft', async (shown) => {
        // This SDK has no result types of extensions: its settings do not name `drafts`.
        shown.text = await text('draft');
        assert.equal(shown.text, 'Dear all,');
    });
    await step('request com.example/stats', async (shown) => {
        shown.stats = await stats();
        assert.ok(stateless || shown.stats.added >= 1);
    });
    await step('notify com.example/touched', async (shown) => {
        const before = (await stats()).touched;
        await client.notification({ method: 'com.example/touched' });
        await eventually(async () => (shown.touched = (await stats()).touched) === before + 1, 'the notification got lost');
    });
    if (!stateless) {
        await step('receive com.example/saved', async (shown) => {
            await eventually(() => saved.includes('shopping'), 'saved notes');
            shown.saved = saved;
        });
    }
}

async function tryRules() {
    await step('call burn, which rules deny', async (shown) => {
        assert.ok((await toolNames()).includes('burn'));
        const result = await call('burn', { password: 'hunter22' });
        shown.text = result.content[0].text;
        assert.ok(result.isError);
        assert.equal(shown.text, 'this notebook does not burn');
    });
    await step('read a resource that rules deny', async (shown) => {
        const answer = await client.readResource({ uri: 'note://secret' }).catch((error) => error);
        [shown.code, shown.message] = [answer.code, answer.message];
        assert.equal(shown.code, -32600);
        assert.match(shown.message, /that note is secret/);
    });
    if (!stateless) {
        await step('call add_note with an argument that rules deny', async (shown) => {
            const result = await call('add_note', { name: 'secret', text: 'mine' });
            shown.text = result.content[0].text;
            assert.ok(result.isError);
            assert.equal(shown.text, 'that name is taken');
        });
    }
    await step('call draft too often', async (shown) => {
        const results = [await call('draft'), await call('draft')];
        shown.isError = results.map((result) => Boolean(result.isError));
        shown.text = results.at(-1).content[0].text;
        assert.deepEqual(shown.isError, [false, true]);
        assert.match(shown.text, /^too many requests/);
    });
}

async function tryCompletion() {
    await step('complete too often', async (shown) => {
        const ref = { type: 'ref/prompt', name: 'letter' };
        const complete = () =>
            client.complete({ ref, argument: { name: 'style', value: 'f' } }).then((result) => result.completion.values.length > 0, () => false);
        const answers = await Promise.all(Array.from({ length: 80 }, complete));
        shown.answered = answers.filter(Boolean).length;
        assert.ok(shown.answered >= 40 && shown.answered < 80, '40 at once are answered, 80 are not');
    });
}

if (connected) {
    if (modern && !stateless) {
        await step('listen', async (shown) => {
            const wanted = ['note://shopping', 'note://secret'];
            const filter = { toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: wanted };
            const subscription = await client.listen(filter);
            shown.granted = subscription.honoredFilter.resourceSubscriptions;
            assert.deepEqual(shown.granted, ['note://shopping']);
            await tryChanges();
            await subscription.close();
        });
    } else if (!stateless) {
        await client.setLoggingLevel('debug');
        await step('subscribe', async (shown) => {
            await client.subscribeResource({ uri: 'note://shopping' });
            shown.code = await client.subscribeResource({ uri: 'note://secret' }).then(() => 'granted', (error) => error.code);
            assert.ok(Number.isInteger(shown.code), 'the secret note can be watched');
        });
        await tryChanges();
        await step('receive a log message outside of requests', () =>
            eventually(() => logged.some(([logger, data]) => logger === 'notebook' && data === 'still here'), 'log messages')
        );
    }
    await tryContext();
    await tryExtension();
    await tryRules();
    await tryCompletion();
}
await step('close', () => client.close());
