// Shared parts of the two TypeScript clients: the command line, the steps, and one JSON line on stdout per step.
// The two SDKs name their calls alike, so the steps themselves are here too.

import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';

/** Reads `[--era ERA] [--lists] [--stateless] -- COMMAND ARGS…`. */
export function commandLine(eras) {
    const { values, positionals } = parseArgs({
        options: {
            era: { type: 'string', default: eras[0] },
            lists: { type: 'boolean', default: false },
            stateless: { type: 'boolean', default: false }
        },
        allowPositionals: true
    });
    if (!eras.includes(values.era) || positionals.length === 0) {
        console.error(`usage: [--era ${eras.join('|')}] [--lists] -- COMMAND ARGS…`);
        process.exit(2);
    }
    return { ...values, command: positionals[0], args: positionals.slice(1) };
}

/** Runs one step: prints `shown`, which the body fills; an exception is a failure. */
export async function step(name, body) {
    const shown = {};
    let line;
    try {
        await body(shown);
        line = { step: name, ok: true, ...shown };
    } catch (error) {
        process.exitCode = 1;
        line = { step: name, ok: false, ...shown, error: `${error.name}: ${error.message}` };
    }
    console.log(JSON.stringify(line));
    return line.ok;
}

const DEMO = {
    tools: ['echo', 'add', 'count', 'fail'],
    resources: ['demo://greeting', 'demo://logo'],
    templates: ['demo://greeting/{name}'],
    prompts: ['greet']
};
const NOTHING = { tools: [], resources: [], templates: [], prompts: [] };

function assertNames(found, needed) {
    const missing = needed.filter((name) => !found.includes(name));
    assert.deepEqual(missing, [], `missing ${missing} in ${found}`);
}

async function tryLists(client, needed) {
    const capabilities = client.getServerCapabilities() ?? {};
    await step('list tools', async (shown) => {
        shown.names = (await client.listTools()).tools.map((tool) => tool.name);
        assertNames(shown.names, needed.tools);
    });
    if (capabilities.resources || needed.resources.length) {
        await step('list resources', async (shown) => {
            shown.uris = (await client.listResources()).resources.map((resource) => resource.uri);
            assertNames(shown.uris, needed.resources);
        });
        await step('list templates', async (shown) => {
            shown.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
            assertNames(shown.templates, needed.templates);
        });
    }
    if (capabilities.prompts || needed.prompts.length) {
        await step('list prompts', async (shown) => {
            shown.names = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
            assertNames(shown.names, needed.prompts);
        });
    }
}

async function tryTools(client, callTool, logged) {
    const listed = (await client.listTools()).tools;
    const tools = listed.map((tool) => tool.name);
    // Both SDKs lose progress that arrives in one read with the result: request a pause from servers that offer one; even
    // so, the last progress may be missing.
    const pace = listed.find((tool) => tool.name === 'count')?.inputSchema.properties?.delay_ms ? { delay_ms: 50 } : {};
    await step('call echo', async (shown) => {
        shown.text = (await callTool('echo', { text: 'hello' })).content[0].text;
        assert.equal(shown.text, 'hello');
    });
    await step('call add', async (shown) => {
        shown.structured = (await callTool('add', { a: 2, b: 3 })).structuredContent;
        assert.deepEqual(shown.structured, { sum: 5 });
    });
    await step('call count', async (shown) => {
        shown.progress = [];
        await callTool('count', { to: 3, ...pace }, { onprogress: ({ progress, total }) => shown.progress.push([progress, total]) });
        assert.ok(shown.progress.length > 0, 'no progress');
        assert.deepEqual(shown.progress, [[1, 3], [2, 3], [3, 3]].slice(0, shown.progress.length));
    });
    await step('cancel count', async (shown) => {
        const abort = new AbortController();
        const options = { signal: abort.signal, onprogress: () => abort.abort() };
        shown.settled = await callTool('count', { to: 500, ...pace }, options).then(() => 'answered', () => 'cancelled');
        assert.equal(shown.settled, 'cancelled');
        assert.equal((await callTool('echo', { text: 'still here' })).content[0].text, 'still here');
    });
    await step('call fail', async (shown) => {
        shown.isError = (await callTool('fail', {})).isError;
        assert.equal(shown.isError, true);
    });
    await step('call an unknown tool', async (shown) => {
        const answer = await callTool('no-such-tool', {}).catch((error) => error);
        shown.isError = answer.isError;
        shown.code = answer.code;
        assert.ok(answer.isError || Number.isInteger(answer.code), 'an unknown tool was called');
    });
    if (tools.includes('log')) {
        await step('call log', async (shown) => {
            await callTool('log', { text: 'look here' });
            shown.logged = logged;
            assert.ok(logged.includes('look here'), 'no log message arrived');
        });
    }
    for (const asking of ['ask', 'introduce'].filter((name) => tools.includes(name))) {
        await step(`call ${asking}`, async (shown) => {
            shown.text = (await callTool(asking, {})).content[0].text;
            assert.match(shown.text, /blue/);
        });
    }
    if (tools.includes('sample')) {
        await step('call sample', async (shown) => {
            shown.text = (await callTool('sample', {})).content[0].text;
            assert.match(shown.text, /Hello from the model/);
        });
    }
}

async function tryResources(client) {
    await step('read text', async (shown) => {
        shown.text = (await client.readResource({ uri: 'demo://greeting' })).contents[0].text;
        assert.ok(shown.text);
    });
    await step('read blob', async (shown) => {
        const [content] = (await client.readResource({ uri: 'demo://logo' })).contents;
        shown.mimeType = content.mimeType;
        assert.equal(content.mimeType, 'image/png');
        assert.ok(content.blob.startsWith('iVBORw0KGgo'), 'not a PNG');
    });
    await step('read template', async (shown) => {
        shown.text = (await client.readResource({ uri: 'demo://greeting/Ada' })).contents[0].text;
        assert.match(shown.text, /Ada/);
    });
    await step('read an unknown resource', async (shown) => {
        const answer = await client.readResource({ uri: 'demo://no-such-resource' }).catch((error) => error);
        shown.code = answer.code;
        assert.ok(Number.isInteger(answer.code), 'an unknown resource was read');
    });
}

async function tryPrompts(client) {
    await step('get prompt', async (shown) => {
        const { messages } = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada', style: 'formal' } });
        shown.text = messages[0].content.text;
        assert.match(shown.text, /Ada/);
    });
    await step('complete prompt argument', async (shown) => {
        const ref = { type: 'ref/prompt', name: 'greet' };
        shown.values = (await client.complete({ ref, argument: { name: 'style', value: '' } })).completion.values;
        assert.ok(shown.values.length > 0);
    });
    await step('complete template variable', async (shown) => {
        const ref = { type: 'ref/resource', uri: 'demo://greeting/{name}' };
        shown.values = (await client.complete({ ref, argument: { name: 'name', value: 'A' } })).completion.values;
        assert.ok(shown.values.length > 0);
    });
}

/** Lists what a connected client's server has; of a demo server (not `lists`) also tries everything. */
export async function tryEverything(client, { lists, callTool, logged }) {
    await tryLists(client, lists ? NOTHING : DEMO);
    if (lists) return;
    await tryTools(client, callTool, logged);
    await tryResources(client);
    await tryPrompts(client);
}

export const answerQuestion = ({ params }) => {
    const names = Object.keys(params.requestedSchema.properties);
    return { action: 'accept', content: Object.fromEntries(names.map((name) => [name, 'blue'])) };
};

export const answerSampling = () => ({
    role: 'assistant',
    content: { type: 'text', text: 'Hello from the model' },
    model: 'test',
    stopReason: 'endTurn'
});
