#!/usr/bin/env python3
"""
The reference pages of settings, policies and metrics name everything that the program has, and nothing else.

    reference_settings.py RATION SOURCE             checks the pages of the source folder against the program
    reference_settings.py --control RATION SOURCE   plants omissions and inventions; each must be reported

    settings.md   every setting of ration serve --print-settings has a row, and every row is a setting
    metrics.md    every metric of a running server (with and without Redis) and of metrics.c has a row, with its type
                  and labels; every alert has one, with its severity and time; every metric that the page, the alerts
                  or the dashboard name exists
    policy.md     every section, field, matcher and word that the parser knows is there; each field has one heading
    ration-policy.5   the same, in the manual
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

START_SECONDS_MAX = 20
METRIC = r"\b(?:ration|rate_limit|process)_[a-z][a-z_]*[a-z]\b"
POLICY = """
limits:
  - {name: login, match: {path: /login}, key: ip, rate: 1/h}
"""


# What the program has ---------------------------------------------------------------------------------------------


def run(ration, *words):
    return subprocess.run([ration, *words], capture_output=True, text=True, timeout=20, check=False)


def settings_of(ration):
    return {line.split("\t")[0] for line in run(ration, "serve", "--print-settings").stdout.splitlines()}


class Program:
    """A process that is ended with the block."""

    def __init__(self, *command, ready, stream):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE if stream == "stdout" else subprocess.DEVNULL,
                                        stderr=subprocess.PIPE if stream == "stderr" else subprocess.DEVNULL, text=True)
        self.matches, missing, end = [], list(ready), time.monotonic() + START_SECONDS_MAX
        for line in getattr(self.process, stream):
            found = re.search(missing[0], line)
            if found:
                self.matches.append(found)
                missing.pop(0)
            if not missing:
                return
            if time.monotonic() > end:
                break
        self.process.kill()
        raise RuntimeError(f"{command[0]} did not start: {missing}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def metrics_of_server(ration, policy, *options):
    """The families of a server that has allowed, denied and answered commands: type and names of labels of each."""
    ready = [r"listening on http 127\.0\.0\.1:(\d+)", r"listening on resp 127\.0\.0\.1:(\d+)"]
    with Program(ration, "serve", "--policy", policy, "--http", "0", "--resp", "0", *options, ready=ready,
                 stream="stderr") as server:
        http, resp = (int(match[1]) for match in server.matches)
        for _ in range(3):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{http}/v1/check?path=/login&ip=192.0.2.7", timeout=10).read()
            except urllib.error.HTTPError as error:
                if error.code != 429:
                    raise
        with socket.create_connection(("127.0.0.1", resp), timeout=10) as client:
            client.sendall(b"RATION.CHECK path /login ip 192.0.2.7\r\nCL.THROTTLE user 5 10 60\r\nQUIT\r\n")
            while client.recv(4096):
                pass
        text = urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=10).read().decode()
    families = {name: (kind, set()) for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", text, re.M)}
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? ", text, re.M):
        _, known = families.setdefault(family_of(name, families), ("untyped", set()))
        known.update(re.findall(r'(?:^|,)([a-z_]+)="', labels))
    return families


def family_of(name, families):
    """The family of a sample: that of a histogram has _bucket, _sum and _count."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in families else name


def metrics_of_servers(ration):
    with tempfile.TemporaryDirectory(prefix="ration-docs-") as folder:
        policy = pathlib.Path(folder, "policy.yaml")
        policy.write_text(POLICY, encoding="utf-8")
        found = metrics_of_server(ration, str(policy))
        if not shutil.which("redis-server"):
            print("redis-server is not installed: no server with Redis is asked")
            return found
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        with Program("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                     ready=["Ready to accept connections"], stream="stdout"):
            for name, (kind, labels) in metrics_of_server(ration, str(policy), "--redis",
                                                          f"redis://127.0.0.1:{port}").items():
                found.setdefault(name, (kind, set()))[1].update(labels)
            return found


def fields_of_parser(ration, text):
    """The fields that the parser lists when it meets one that it does not know."""
    with tempfile.TemporaryDirectory(prefix="ration-docs-") as folder:
        path = pathlib.Path(folder, "policy.yaml")
        path.write_text(text, encoding="utf-8")
        message = run(ration, "policy", "check", str(path)).stderr
    return set(re.split(r", | and ", re.search(r"no field 'zzzzzzzz': fields are (.*)", message)[1]))


def words_of(text, pattern):
    """The strings of the array that the pattern begins."""
    return set(re.findall(r'"([^"]+)"', re.search(pattern + r"[^=]*= *\{(.*?)\};", text, re.S)[1]))


def facts(ration, source):
    """All that is compared: what the program has, and what the pages and examples say."""
    def read(name):
        return (source / name).read_text(encoding="utf-8")

    limit_entry, metrics_c = read("src/policy/limit_entry.c"), read("src/server/ops/metrics.c")
    arrays = (r"overflows\[\]", r"missings\[\]", r"fallbacks\[\]", r"modes\[\]", r"booleans\[\]")
    words = set().union(*(words_of(limit_entry, array) for array in arrays))
    words |= words_of(read("src/policy/condition.c"), r"kind_words\[\]")
    words |= set(re.findall(r'X\("([a-z_]+)"', read("src/core/algorithm.h")))
    families = metrics_of_servers(ration)
    return {
        "settings": settings_of(ration),
        "metrics": set(families),
        "families": families,
        "metrics_c": set(re.findall(rf'"({METRIC})"', metrics_c)),
        "sections": fields_of_parser(ration, "zzzzzzzz: 1\n"),
        "fields": (fields_of_parser(ration, "limits:\n  - zzzzzzzz: 1\n") |
                   words_of(limit_entry, r"field_names\[FIELD_COUNT\]")),
        "words": words,
        "settings.md": read("docs/reference/settings.md"),
        "metrics.md": read("docs/reference/metrics.md"),
        "policy.md": read("docs/reference/policy.md"),
        "ration-policy.5": read("man/ration-policy.5"),
        "alerts.yml": read("examples/prometheus/alerts.yml"),
        "ration.json": read("examples/grafana/ration.json"),
    }


# What the pages say -----------------------------------------------------------------------------------------------


def rows_of(page, pattern):
    """The names in the first column of the page's tables; several may share a row."""
    cells = re.findall(r"^\| ([^|]*`[^|]*) \|", page, re.M)
    return {name for cell in cells for name in re.findall(rf"`({pattern})`", cell)}


def expressions_of(found):
    if isinstance(found, dict):
        yield from (value for name, value in found.items() if name in ("expr", "query") and isinstance(value, str))
        found = list(found.values())
    if isinstance(found, list):
        for value in found:
            yield from expressions_of(value)


def compare(what, page, missing, invented):
    yield from (f"{page} lacks the {what} {name}" for name in sorted(missing))
    yield from (f"{page} names the {what} {name}, which does not exist" for name in sorted(invented))


def problems_of_settings(fact):
    page = fact["settings.md"]
    table = page[page.index("settings begin"):page.index("settings end")]
    rows = rows_of(table, "[a-z-]+")
    yield from compare("setting", "settings.md", fact["settings"] - rows, rows - fact["settings"])


def cells_of(page, head):
    """The rows of the tables whose first row begins so, as lists of cells."""
    for table in re.findall(r"(?:^\|.*\n)+", page, re.M):
        if table.startswith(head):
            yield from ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:])


def problems_of_types(fact):
    """The page says of each metric: type; `label`, `label`."""
    for cell, shape, *_ in cells_of(fact["metrics.md"], "| metric | type, labels |"):
        for name in re.findall(METRIC, cell):
            kind, _, labels = shape.partition(";")
            if name not in fact["families"]:
                continue  # reported as invented
            wanted, known = fact["families"][name]
            if kind != wanted:
                yield f"metrics.md: {name} is a {wanted}, not a {kind}"
            said = re.findall(r"`([a-z_]+)`", labels)
            if sorted(said) != sorted(known):
                yield f"metrics.md: {name} has the labels {sorted(known)}, not {said}"


def minutes_of(text):
    """5 of "for: 5m" or "for 5 min"; 0 of none."""
    found = re.search(r"\bfor:? (\d+) ?m(?:in)?\b", text)
    return int(found[1]) if found else 0


def problems_of_alerts(fact):
    rows = {name: row for row in cells_of(fact["metrics.md"], "| alert |") for name in re.findall(r"Ration\w+", row[0])}
    rules = re.findall(r"- alert: (\w+)\n((?: {8}.*\n)+)", re.sub(r"^ *#.*\n", "", fact["alerts.yml"], flags=re.M))
    if len(rules) < 5:
        yield f"only {len(rules)} alerts were found"
    for name, rule in rules:
        severity = re.search(r"severity: (\w+)", rule)[1]
        _, said, fires, *_ = rows.get(name, ["", severity, rule])  # a missing row is reported as such
        if said != severity:
            yield f"metrics.md: the severity of {name} is {severity}, not {said}"
        if minutes_of(fires) != minutes_of(rule):
            yield f"metrics.md: {name} fires after {minutes_of(rule)} min, not {minutes_of(fires)}"


def problems_of_metrics(fact):
    page, exists = fact["metrics.md"], fact["metrics"]
    rows = rows_of(page, METRIC)
    yield from compare("metric", "metrics.md", (exists | fact["metrics_c"]) - rows, set())
    named = {
        "metrics.md": re.findall(METRIC, page),
        "alerts.yml": re.findall(METRIC, re.sub(r"#.*", "", fact["alerts.yml"])),
        "ration.json": [name for text in expressions_of(json.loads(fact["ration.json"]))
                        for name in re.findall(METRIC, text)],
    }
    for where, names in named.items():
        yield from compare("metric", where, set(), {family_of(name, exists) for name in names} - exists)
    alerts = set(re.findall(r"- alert: (\w+)", fact["alerts.yml"]))
    alert_rows = rows_of(page, "Ration[A-Za-z]+")
    yield from compare("alert", "metrics.md", alerts - alert_rows, alert_rows - alerts)


def problems_of_policy(fact):
    page = fact["policy.md"]
    headings = re.findall(r"^### ([a-z0-9_]+)$", page, re.M)
    sections = rows_of(page[page.index("## Sections"):page.index("## Fields of a limit")], "[a-z]+")
    yield from compare("section", "policy.md", fact["sections"] - sections, sections - fact["sections"])
    yield from compare("field", "policy.md", fact["fields"] - set(headings), set(headings) - fact["fields"])
    yield from (f"policy.md describes {name} twice" for name in sorted(set(headings)) if headings.count(name) > 1)
    unexplained = {word for word in fact["words"] if not re.search(rf"\b{word}\b", page)}
    yield from compare("word", "policy.md", unexplained, set())


def problems_of_manual(fact):
    page = fact["ration-policy.5"]
    _, sections, fields = re.split(r"^\.Ss .*\n", page, flags=re.M)
    for what, text in (("section", sections), ("field", fields.split("\n.Sh ")[0])):
        names = [name for item in re.findall(r"^\.It Li (.*)", text, re.M) for name in item.split(" , ")]
        yield from compare(what, "ration-policy.5", fact[what + "s"] - set(names), set(names) - fact[what + "s"])
        yield from (f"ration-policy.5 describes {name} twice" for name in sorted(set(names)) if names.count(name) > 1)
    unexplained = {word for word in fact["words"] if not re.search(rf"\b{word}\b", page)}
    yield from compare("word", "ration-policy.5", unexplained, set())


def problems(fact):
    for count, what in ((40, "settings"), (30, "metrics"), (6, "sections"), (20, "fields"), (15, "words")):
        if len(fact[what]) < count:
            yield f"only {len(fact[what])} {what} were found in the program: {sorted(fact[what])}"
    yield from problems_of_settings(fact)
    yield from problems_of_metrics(fact)
    yield from problems_of_types(fact)
    yield from problems_of_alerts(fact)
    yield from problems_of_policy(fact)
    yield from problems_of_manual(fact)


# Planted mistakes -------------------------------------------------------------------------------------------------

PLANTS = (
    ("a setting without a row", "settings.md", "| `max-input` |", "| `max-inputs` |"),
    ("a metric without a row", "metrics.md", "| `ration_banned_total` |", "| banned |"),
    ("a metric of Redis without a row", "metrics.md", "| `ration_degraded_total` |", "| degraded |"),
    ("an invented metric on the page", "metrics.md", "## Alerts", "## Alerts\n\n`ration_nonsuch_total`"),
    ("an invented metric in an alert", "alerts.yml", "ration_accept_pauses_total", "ration_accept_pause_total"),
    ("an invented metric in the dashboard", "ration.json", "ration_near_limit_total", "ration_nearly_limit_total"),
    ("an alert without a row", "metrics.md", "| `RationDegraded` |", "| degraded |"),
    ("an alert that is gone", "alerts.yml", "alert: RationErrors", "alert: RationError"),
    ("a field without a heading", "policy.md", "### overflow\n", "### others\n"),
    ("a field that is described twice", "policy.md", "### shadow\n", "### shadow\n\n### shadow\n"),
    ("a section without a row", "policy.md", "| `banned` |", "| ban |"),
    ("a word that is not explained", "policy.md", "local_first", "near"),
    ("a wrong type", "metrics.md", "| `ration_connections` | gauge |", "| `ration_connections` | counter |"),
    ("a wrong label", "metrics.md", "| counter; `limit`, `rule` |", "| counter; `limit`, `rules` |"),
    ("a label that is missing", "metrics.md", "| counter; `limit`, `rule` |", "| counter; `limit` |"),
    ("a label too many", "metrics.md", "| `ration_banned_total` | counter |", "| `ration_banned_total` | counter; `limit` |"),
    ("a wrong label of Redis", "metrics.md", "| `ration_redis_calls_total` | counter; `result` |",
     "| `ration_redis_calls_total` | counter; `outcome` |"),
    ("a wrong severity", "metrics.md", "| `RationDegraded` | critical |", "| `RationDegraded` | warning |"),
    ("another severity in the rules", "alerts.yml", "{severity: info}", "{severity: warning}"),
    ("a wrong time", "metrics.md", "without Redis for 2 min", "without Redis for 3 min"),
    ("another time in the rules", "alerts.yml", "for: 15m", "for: 10m"),
    ("a time that no rule has", "metrics.md", "wrong secrets in 10 min", "wrong secrets for 10 min"),
    ("a renamed field in the manual", "ration-policy.5", ".It Li on_redis_error", ".It Li on_redis_errors"),
    ("a field missing in the manual", "ration-policy.5", ".It Li threshold\n", ""),
    ("a field missing in a list of the manual", "ration-policy.5", "refill , reserve", "refill"),
    ("a field twice in the manual", "ration-policy.5", ".It Li cost\n", ".It Li cost\n.It Li cost\n"),
    ("a renamed section in the manual", "ration-policy.5", ".It Li exempt", ".It Li exempted"),
    ("a word missing in the manual", "ration-policy.5", "sliding_log", "log"),
)


def control(fact):
    missed = [f"nothing was planted, yet: {problem}" for problem in problems(fact)]
    for what, page, old, new in PLANTS:
        if old not in fact[page]:
            missed.append(f"cannot plant {what}: {page} has no {old!r}")
        elif not list(problems({**fact, page: fact[page].replace(old, new)})):
            missed.append(f"not reported: {what}")
    if not list(problems({**fact, "metrics_c": fact["metrics_c"] | {"ration_new_total"}})):
        missed.append("not reported: a metric that only metrics.c has")
    print("\n".join(missed) if missed else f"{len(PLANTS) + 1} planted mistakes were reported")
    return 1 if missed else 0


def main(arguments):
    is_control = arguments[0] == "--control"
    ration, source = arguments[is_control:]
    fact = facts(str(pathlib.Path(ration).resolve()), pathlib.Path(source))
    if is_control:
        return control(fact)
    found = list(problems(fact))
    print("\n".join(found) if found else f"{len(fact['settings'])} settings, {len(fact['metrics'])} metrics and "
          f"{len(fact['fields'])} fields are described")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
