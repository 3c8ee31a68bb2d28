"""Counts the checks of each scenario, and compares them with the exceptions and the recorded successes.

judge.py SUITE RESULTS [--record] [--only WORD]
"""

import argparse
import fnmatch
import json
import pathlib
import re
import sys
from collections import Counter, defaultdict

TIMESTAMP = re.compile(r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$")
STATUSES = ["SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO"]
# An additional check that the suite lacks: the client ran to its end.
COMPLETION = "client-completes"


class Scenario:
    def __init__(self, folder, name, is_client):
        self.checks = json.loads((folder / "checks.json").read_text())
        if is_client:
            completed = (folder / "stdout.txt").read_text().splitlines() == [f"completed {name}"]
            said = (folder / "stderr.txt").read_text().strip().splitlines()
            self.checks.append({
                "id": COMPLETION,
                "status": "SUCCESS" if completed else "FAILURE",
                "errorMessage": said[-1] if said else "the client printed no error",
            })
        unknown = {check["status"] for check in self.checks} - set(STATUSES)
        assert not unknown, f"{name}: the suite has new statuses: {unknown}"
        self.counts = Counter(check["status"] for check in self.checks)

    def failed(self):
        """Failures, warnings and skipped checks: a person decides whether skipping is right."""
        return [check for check in self.checks if check["status"] in ("FAILURE", "WARNING", "SKIPPED")]

    def count(self):
        return self.counts["SUCCESS"]


def read_results(folder):
    """{(run, scenario): Scenario}"""
    found = {}
    for run in sorted(folder.iterdir()):
        for path in sorted(run.rglob("checks.json")):
            relative = path.parent.relative_to(run).as_posix()
            name = TIMESTAMP.sub("", relative)
            assert name != relative, f"{relative} does not end with a timestamp"
            is_client = run.name.startswith("client")
            if not is_client:
                name = name.removeprefix("server-")
            found[run.name, name] = Scenario(path.parent, name, is_client)
    return found


def lines(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield f"{path.name}:{number}", line


def read_exceptions(path):
    """[(place, pattern of runs, scenario, check or None)]; each line also has a reason."""
    read = []
    for place, line in lines(path):
        parts = line.split(None, 2)
        assert len(parts) == 3, f"{place}: RUNS SCENARIO[:CHECK] REASON"
        scenario, _, check = parts[1].partition(":")
        read.append((place, parts[0], scenario, check or None))
    return read


def read_recorded(path):
    recorded = {}
    for place, line in lines(path):
        run, scenario, count = line.split()
        recorded[run, scenario] = int(count)
    return recorded


def unexcused(results, exceptions, wanted):
    """Failures without an exception, and exceptions without a failure."""
    problems = []
    excused = defaultdict(set)
    for place, runs, scenario, check in exceptions:
        matched = [key for key in results if fnmatch.fnmatchcase(key[0], runs) and key[1] == scenario]
        for key in matched:
            failed = [item["id"] for item in results[key].failed() if check in (None, item["id"])]
            if failed:
                excused[key].update(failed)
            else:
                problems.append(f"{place}: {key[0]} {scenario}: this no longer fails: remove the line")
        if not matched and not wanted:
            problems.append(f"{place}: no run has {runs} {scenario}")
    for key, result in results.items():
        for check in result.failed():
            if check["id"] not in excused[key]:
                reason = check.get("errorMessage") or check.get("description") or ""
                problems.append(f"{' '.join(key)}:{check['id']} {check['status']}: {reason[:400]}")
    return problems


def fewer(results, recorded, wanted):
    problems = []
    for key, before in recorded.items():
        if key not in results and wanted in key[0]:
            problems.append(f"{' '.join(key)} did not run")
    for key, result in results.items():
        count, before = result.count(), recorded.get(key)
        if before is None:
            problems.append(f"{' '.join(key)} is not recorded: {count} successes")
        elif count < before:
            problems.append(f"{' '.join(key)} has {count} successes, {before} before")
    return problems


def show(results):
    by_run = defaultdict(list)
    for (run, _), result in results.items():
        by_run[run].append(result)
    header = ["run", "scenarios", "without failure", "successes", "failures", "warnings", "skipped"]
    rows = [header]
    for run, members in by_run.items():
        counts = sum((member.counts for member in members), Counter())
        clean = sum(not member.failed() for member in members)
        rows.append([run, len(members), clean, *(counts[status] for status in STATUSES[:4])])
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [str(cell).rjust(width) for cell, width in zip(row, widths)]
        print("  ".join([cells[0].strip().ljust(widths[0]), *cells[1:]]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()

    results = read_results(options.results)
    if not results:
        sys.exit("conformance: nothing ran")
    show(results)
    path = options.suite / "recorded.txt"
    recorded = read_recorded(path)
    if options.record:
        kept = {key: count for key, count in recorded.items() if options.only not in key[0]}
        kept.update({key: result.count() for key, result in results.items()})
        head = "# RUN SCENARIO SUCCESSES: written by RECORD=1 tests/conformance.\n"
        path.write_text(head + "".join(f"{run} {name} {count}\n" for (run, name), count in sorted(kept.items())))
        recorded = kept

    problems = unexcused(results, read_exceptions(options.suite / "exceptions.txt"), options.only)
    problems += fewer(results, recorded, options.only)
    for problem in problems:
        print(f"FAIL {problem}")
    more = [key for key, result in results.items() if result.count() > recorded.get(key, 0)]
    for key in more:
        print(f"more {' '.join(key)} has {results[key].count()} successes, {recorded.get(key, 0)} recorded")
    print(f"conformance: {sum(result.count() for result in results.values())} successes, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()
