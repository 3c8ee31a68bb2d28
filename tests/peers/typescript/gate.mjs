// Passes requests on to a server if they have the key that a file holds at the moment, and answers 401 otherwise:
// `node gate.mjs PORT URL FILE`.

import fs from 'node:fs';
import http from 'node:http';

const [port, url, file] = process.argv.slice(2);
const gate = http.createServer((request, response) => {
    if (request.headers.authorization !== `Bearer ${fs.readFileSync(file, 'utf8').trim()}`) {
        request.resume();
        response.writeHead(401).end();
        return;
    }
    const target = new URL(request.url, url);
    const options = { method: request.method, headers: { ...request.headers, host: target.host } };
    const passed = http.request(target, options, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
});
gate.listen(Number(port), '127.0.0.1');
