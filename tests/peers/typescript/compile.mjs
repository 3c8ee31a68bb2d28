// compile.mjs PROGRAM.ts COMMAND…: compiles the declarations that the command prints, with a program that uses them.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import ts from "typescript";

const [program, command, ...args] = process.argv.slice(2);
const text = execFileSync(command, args, { encoding: "utf8" });
const options = { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, types: [] };
const host = ts.createCompilerHost(options);
const files = { "tools.ts": text + readFileSync(program, "utf8") };
const { getSourceFile } = host;
host.getSourceFile = (name, target) =>
    files[name] === undefined ? getSourceFile(name, target) : ts.createSourceFile(name, files[name], target);
host.fileExists = (name) => name in files || ts.sys.fileExists(name);

const problems = ts.getPreEmitDiagnostics(ts.createProgram(Object.keys(files), options, host));
console.error(ts.formatDiagnostics(problems, host));
console.log(JSON.stringify({ compiled: problems.length === 0, text }));
process.exit(problems.length === 0 ? 0 : 1);
