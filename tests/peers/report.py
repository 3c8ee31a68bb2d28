"""Writes RESULTS.md, results.svg and the README's table from the tables of the program `speed`.

Called by tests/peers/benchmark: report.py SPEED FOLDER, where FOLDER has a file of tables for each program.
"""

import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import counts  # noqa: E402

PROGRAMS = {
    "memory": "A `tools/call` in memory",
    "child": "A `tools/call` to a child process",
    "http": "A `tools/call` over HTTP/1.1",
    "scale": "Many requests, many subscribers",
    "held": "Memory",
    "framing": "Newline framing",
    "sse": "Event streams",
    "envelope": "Messages",
}
NOTES = {
    "memory": "The limit is serde_json with typed parameters, and no protocol. *Bare* is the state machines without "
    "futures, *front* the async handles with bytes carried by hand; *over a duplex*, both SDKs run their own drivers on "
    "one tokio executor.",
    "child": "The limit is a blocking echo of lines that parses nothing; with 64 in flight it writes 64 at once. " 
    "`run_stdio()` is our server with a thread of its own.",
    "http": "Both ends are on one thread. The limit is hyper with hyper, which echo the body, on the reactor of the row: "
    "tokio or smol. *As it comes*, rmcp's client opens a connection for each request; *pooled*, it was "
    "given an HTTP client that keeps them. As SSE, our server also reports progress: it answers as a stream only if "
    "there is more than the result.",
    "scale": "Requests in flight are sent and not answered; then one more is sent and answered. Subscribers are response "
    "streams in memory, and each gets its notification.",
    "held": "Bytes on the heap, without HTTP's own connections and buffers. A new session has been silent for less than a "
    "second, an idle one for two.",
    "framing": "The limit is one copy per chunk, as reading does, and a search for newlines. Lines that outlive the read share "
    "the chunk: the second limit.",
    "sse": "The limit is a search for line breaks. sse-stream is the decoder of rmcp.",
    "envelope": "The limit is the check that the bytes are UTF-8.",
}

MODERN = "2026-07-28"
# (label, table, limit, peer, ours)
HEADLINES = [
    ("in memory", f"in memory, {MODERN}, one at a time", "limit: lean", "rmcp over a duplex", "ours over a duplex"),
    ("child process", f"child process, {MODERN}, one at a time", "limit: echo of lines", "rmcp, stdio_pipes()", "ours"),
    ("child process, run_stdio", f"child process, {MODERN}, one at a time", "limit: echo of lines", "rmcp, stdio_pipes()", "ours, run_stdio()"),
    ("the same, 64 in flight", f"child process, {MODERN}, 64 in flight", "limit: echo of lines", "rmcp, stdio_pipes()", "ours, run_stdio()"),
    ("HTTP on smol", f"HTTP, JSON, {MODERN}, one at a time", "limit: hyper on smol", "rmcp, pooled", "ours on smol"),
    ("HTTP on tokio", f"HTTP, JSON, {MODERN}, one at a time", "limit: hyper on tokio", "rmcp, pooled", "ours on tokio"),
    ("the same, 64 in flight", f"HTTP, JSON, {MODERN}, 64 in flight", "limit: hyper on tokio", "rmcp, pooled", "ours on tokio"),
]


def tables(text):
    """{title: {row: cells}} of Markdown tables under titles."""
    found, title = {}, ""
    for line in text.splitlines():
        if line.startswith("### "):
            title = line[4:]
        elif line.startswith("| ") and not line.startswith("| |"):
            cells = [cell.strip() for cell in line.strip("|\n").split("|")]
            found.setdefault(title, {})[cells[0]] = cells[1:]
    return found


def number(cell):
    return float(cell.replace(",", ""))


def short(value):
    """A rate with three digits: 1.23 M, 45.6 k."""
    for unit, size in ((" M", 1e6), (" k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}" if value / size < 1000 else f"{value / size:,.0f}{unit}"
    return f"{value:.3g}"


def output(*command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()


def machine():
    """Lines on the machine, the versions and the commit."""
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal: *(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)
    lock = (HERE / "speed" / "Cargo.lock").read_text()
    versions = dict(re.findall(r'name = "(.*)"\nversion = "(.*)"', lock))
    names = ["rmcp", "tokio", "hyper", "reqwest", "smol", "async-io", "serde_json", "sse-stream", "sse-core", "eventsource-stream", "tokio-util"]
    dirty = output("git", "status", "--porcelain", "--untracked-files=no", "--", "*.rs", "*.toml")
    commit = output("git", "rev-parse", "--short=10", "HEAD") + (" with uncommitted changes" if dirty else "")
    load = float(os.environ.get("LOAD_BEFORE", "0"))
    busy = [f"* **The machine was busy** (load average {load:.1f} at the start): times here mean little, counts are right."]
    return [
        *(busy if load > 1 else []),
        f"* commit {commit}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
        f"* {cpu[1] if cpu else 'unknown processor'}, {os.cpu_count()} cores of which one is used, "
        f"{int(memory[1]) / 2**20:.0f} GiB; {platform.system()} {platform.release()}",
        f"* {output('rustc', '--version')}; `cargo build --release` with the default profile",
        "* " + ", ".join(f"{name} {versions[name]}" for name in names if name in versions),
    ]


def counted(speed):
    """Tables of instructions, allocations and system calls per request, and notes on missing tools."""
    if os.environ.get("COUNTS") == "0":
        return "They were left out of this run (`COUNTS=0`).\n"
    wanted = {}
    for title in [*(f"in memory, {revision}, one at a time" for revision in ("2025-11-25", MODERN)),
                  f"HTTP, JSON, {MODERN}, one at a time", "HTTP, session, 2025-11-25, one at a time"]:
        program = "memory" if title.startswith("in memory") else "http"
        wanted[title] = (program, program == "http")
    for revision in ("2025-11-25", MODERN):
        for load in ("one at a time", "64 in flight"):
            wanted[f"child process, {revision}, {load}"] = ("child", True)
    lists = {program: output(speed, program, "--list").splitlines() for program in ("memory", "http", "child")}
    has_valgrind, has_strace = (shutil.which(tool) for tool in ("valgrind", "strace"))
    out = []
    if not has_valgrind:
        out.append("Instructions and allocations were not counted: valgrind is not installed.\n")
    if not has_strace:
        out.append("System calls were not counted: strace is not installed.\n")
    for title, (program, calls) in wanted.items():
        out.append(f"\n### {title}: counts per request\n")
        out.append("| | instructions | allocations | system calls |\n|---|--:|--:|--:|")
        batch = 256 if title.endswith("64 in flight") else 64
        for line in lists[program]:
            if not line.startswith(f"{title}: "):
                continue
            cells = ["–", "–", "–"]
            # Callgrind follows no child process: its counts would be those of one side.
            if has_valgrind and program != "child":
                instructions, allocations = counts.each(counts.profile, [speed, program], line, 4)
                cells[:2] = f"{instructions / batch:,.0f}", f"{allocations / batch:.1f}"
            if has_strace and calls:
                (number_of_calls,) = counts.each(counts.system_calls, [speed, program], line, 4)
                cells[2] = f"{number_of_calls / batch:.1f}"
            out.append(f"| {line.removeprefix(title + ': ')} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def headlines(found):
    """(label, rates of limit, peer and ours) of the main table."""
    return [
        (label, *(number(found[title][row][0]) for row in (limit, peer, ours)))
        for label, title, limit, peer, ours in HEADLINES
    ]


def main_table(rows, held):
    out = ["| per second, one core | limit | rmcp 3.9 | this project | ÷ rmcp |", "|---|--:|--:|--:|--:|"]
    for label, limit, peer, ours in rows:
        out.append(f"| {label} | {short(limit)} | {short(peer)} | {short(ours)} | **{ours / peer:.1f} ×** |")
    theirs, ours, ratio = held["idle session (2025-11-25)"]
    out.append(f"| bytes of an idle session over HTTP | | {theirs} | {ours} | **{ratio} × less** |")
    return "\n".join(out) + "\n"


def plot(rows):
    """Bars of requests per second, each group on its own scale; a limit far above the rest is cut."""
    width, left, right, bar, gap = 760, 190, 110, 13, 16
    room = width - left - right
    height = 58 + len(rows) * (3 * bar + gap)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img">',
        "<title>Requests per second: the limit, rmcp 3.9 and this project</title>",
        "<style>.card{fill:#ffffff}.text{fill:#1f2328}.dim{fill:#59636e}.limit{fill:#c5ccd3}.rmcp{fill:#d98a3d}.ours{fill:#2563c9}"
        "@media(prefers-color-scheme:dark){.card{fill:#0d1117}.text{fill:#e6edf3}.dim{fill:#9198a1}.limit{fill:#444c56}"
        ".rmcp{fill:#d98a3d}.ours{fill:#5b9bf5}}</style>",
        f'<rect class="card" width="{width}" height="{height}" rx="6"/>',
    ]
    at = left
    for name, label in (("limit", "limit"), ("rmcp", "rmcp 3.9"), ("ours", "this project")):
        out.append(f'<rect class="{name}" x="{at}" y="14" width="12" height="12"/>')
        out.append(f'<text class="text" x="{at + 17}" y="24">{label}</text>')
        at += 40 + 8 * len(label)
    out.append(f'<text class="dim" x="{at}" y="24" font-size="11">per second; each group has its own scale</text>')
    top = 42
    for label, limit, peer, ours in rows:
        # The limit fits unless the others would shrink to less than two fifths.
        scale = room / min(max(limit, peer, ours), 2.5 * max(peer, ours))
        out.append(f'<text class="text" x="{left - 10}" y="{top + 1.5 * bar + 4}" text-anchor="end">{label}</text>')
        for name, value in (("limit", limit), ("rmcp", peer), ("ours", ours)):
            length = min(value * scale, room)
            out.append(f'<rect class="{name}" x="{left}" y="{top}" width="{length:.1f}" height="{bar - 2}"/>')
            if value * scale > room + 0.5:
                out.append(f'<path class="card" d="M{left + room - 24} {top + bar}l6 {-bar - 2}h5l-6 {bar + 2}z"/>')
            note = f" ({ours / peer:.1f} ×)" if name == "ours" else ""
            weight = ' font-weight="600"' if name == "ours" else ""
            out.append(f'<text class="text" x="{left + length + 6:.1f}" y="{top + bar - 3}" font-size="11"{weight}>{short(value)}{note}</text>')
            top += bar
        top += gap
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    speed, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    texts = {program: (folder / program).read_text() for program in PROGRAMS}
    found = {title: rows for text in texts.values() for title, rows in tables(text).items()}
    rows = headlines(found)
    summary = main_table(rows, found["memory of a server for each waiting client"])
    (HERE / "results.svg").write_text(plot(rows))

    out = [
        "# Speed beside other SDKs\n",
        "`tests/peers/benchmark` wrote this page. It runs everything on one core: limit, peers and this project in turns,",
        "each number the median of up to 151 rounds. Only the ratios mean something on another machine.\n",
        *machine(),
        "* one row: `speed PROGRAM --repeat N ROW`; the rows: `speed PROGRAM --list` (`tests/peers/speed`)\n",
        summary,
        "![Requests per second](results.svg)\n",
    ]
    for program, heading in PROGRAMS.items():
        out += [f"## {heading}\n", f"{NOTES[program]}\n", texts[program].strip() + "\n"]
    out += [
        "## Counts per request\n",
        "Both sides together; they repeat on a busy machine. Allocations are calls of malloc and its like.\n",
        counted(speed),
    ]
    page = HERE / "RESULTS.md"
    # The last section is that of another command.
    kept = re.search(r"\n## WebAssembly\n.*", page.read_text(), re.DOTALL)
    page.write_text("\n".join(out) + (kept[0] if kept else ""))

    readme = ROOT / "README.md"
    begin, end = "<!-- tests/peers/benchmark writes this table -->\n", "<!-- end of the table -->"
    before, rest = readme.read_text().split(begin)
    readme.write_text(before + begin + "\n" + summary + "\n" + rest[rest.index(end):])


main()
