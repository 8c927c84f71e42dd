#!/usr/bin/env python3
"""A real Prometheus scrapes a server; the test evaluates the dashboard and the alerts that the project ships.

    prometheus_test.py RATION
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "proxies")]
import kit
import serve

BINARY = os.path.abspath(sys.argv[1])
SCRAPES_SECONDS = 0.25
QUERY_SECONDS = 30
BATCHES_PER_TIMED = 16  # one in so many batches is timed

POLICY = """
limits:
  - {name: api, match: {path: {prefix: /api/}}, key: user, rate: 2/min}
  - {name: shy, match: {path: {prefix: /api/}}, key: user, rate: 1/min, shadow: true}
  - {name: wide, match: {path: /wide}, key: user, rate: 10/min}
  - {name: peer, match: {path: /ip}, key: ip, rate: 1/min}
  - {name: full, match: {path: /full}, key: user, rate: 1/min, max_keys: 1, overflow: deny}
exempt:
  - user: root
banned:
  - user: mallory
"""


class Prometheus(kit.Program):
    """The shipped configuration, with a shorter interval and with its data in a folder of its own."""

    def __init__(self, ration_port):
        self.ration_port = ration_port
        super().__init__()

    def prepare(self):
        text = kit.example("prometheus/prometheus.yml").replace(
            "127.0.0.1:8429", f"127.0.0.1:{self.ration_port}")
        self.write("alerts.yml", kit.example("prometheus/alerts.yml"))
        path = self.write("prometheus.yml", f"""
global:
  scrape_interval: {int(SCRAPES_SECONDS * 1000)}ms
  scrape_timeout: {int(SCRAPES_SECONDS * 1000)}ms
""" + text)
        return ["prometheus", "--config.file", path, "--storage.tsdb.path",
                os.path.join(self.folder, "data"), f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn"]

    def query(self, expression):
        """The result of the query: [(labels, value)]."""
        status, _, body = kit.ask(self.port, path="/api/v1/query?query="
                                  + urllib.parse.quote(expression), source="127.0.0.1")
        if status == 503:
            return []  # Prometheus is still starting
        serve.expect(status, 200, body)
        return [(item["metric"], float(item["value"][1]))
                for item in json.loads(body)["data"]["result"]]

    def wait_for(self, expression, value):
        kit.wait_until(lambda: [found for _, found in self.query(expression)] == [value],
                       f"{expression} to be {value}, and not {self.query(expression)}", QUERY_SECONDS)


def traffic(server):
    """Sends at least one request for everything that is counted."""
    client = server.resp()
    for path, user, count in (("/api/x", "a", 7), ("/api/x", "root", 2), ("/", "mallory", 1),
                              ("/free", "a", 1), ("/wide", "a", 9)):
        client.pipeline(count * [("RATION.CHECK", "path", path, "user", user)])
    client.pipeline([("RATION.CHECK", "path", "/full", "user", str(i)) for i in range(200)])
    for _ in range(BATCHES_PER_TIMED):
        client.ask("RATION.CHECK", "path", "/free")
    client.ask("RATION.CHECK", "path", "/ip", "ip", "nonsense")
    client.ask("NO.SUCH.COMMAND")
    server.http("GET", "/nowhere")
    client.ask("AUTH", "wrong")


def dashboard():
    return json.loads(kit.example("grafana/ration.json"))


def expressions(found):
    """Every expression in the dashboard, with Grafana's variables filled in."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "expr":
                yield value.replace("$__rate_interval", "1m").replace("$limit", ".*")
            else:
                yield from expressions(value)
    elif isinstance(found, list):
        for item in found:
            yield from expressions(item)


def promtool(*arguments, folder=None):
    done = subprocess.run(["promtool", *arguments], stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, timeout=QUERY_SECONDS, cwd=folder)
    return done.returncode, done.stdout.decode()


def test_prometheus_and_the_dashboard():
    with serve.Server(BINARY, POLICY, options=["--manual-clock"]) as server, \
            Prometheus(server.http_port) as prometheus:
        prometheus.wait_for('rate_limit_acquire_total{limit="api",result="denied"}', 0)
        for _ in range(2):  # between scrapes, so that there are rates
            traffic(server)
        prometheus.wait_for('rate_limit_acquire_total{limit="api",result="allowed"}', 2)
        prometheus.wait_for('rate_limit_acquire_total{limit="api",result="denied"}', 12)
        prometheus.wait_for('ration_shadow_denied_total{limit="shy"}', 13)
        prometheus.wait_for('sum(ration_unlimited_total)', 2 * (3 + BATCHES_PER_TIMED))
        prometheus.wait_for('up{job="ration"}', 1)
        prometheus.wait_for('count(ALERTS{alertname="RationDown"}) or vector(0)', 0)
        for expression in set(expressions(dashboard())):
            check_expression(prometheus, expression)


# Expressions that may have no data, even without an error; those of Redis have none without Redis.
MAY_BE_EMPTY = ("changes(ration_reloads_total", "ration_redis_", "ration_degraded_", "ration_decided_locally_")


def check_expression(prometheus, expression):
    status, said = promtool("query", "instant", f"http://127.0.0.1:{prometheus.port}", expression)
    serve.expect(status, 0, f"{expression}: {said}")
    if not any(part in expression for part in MAY_BE_EMPTY):
        kit.wait_until(lambda: prometheus.query(expression), f"data of {expression}", QUERY_SECONDS)
        values = prometheus.query(expression)
        serve.expect(any(value == value for _, value in values), True,
                     f"all of {expression} is no number: {values}")


# PromQL keywords that look like names of metrics.
NO_METRIC = re.compile(r"^(sum|by|rate|increase|max|changes|sort|histogram_quantile|and|label_values)$")


def names_in(expression):
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)', "", expression)
    return {name for name in re.findall(r"[a-zA-Z_][a-zA-Z0-9_]*", bare) if not NO_METRIC.match(name)}


def test_every_metric_on_the_dashboard_exists():
    # Its metrics exist even if Redis does not answer.
    with serve.Server(BINARY, POLICY, options=["--manual-clock", "--redis", "redis://127.0.0.1:1"]) as server:
        traffic(server)
        text = server.http("GET", "/metrics")[2].decode()
    there = set(re.findall(r"^([a-zA-Z_][a-zA-Z0-9_]*)[{ ]", text, re.MULTILINE))
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    named = set().union(*(names_in(expression) for expression in expressions(dashboard())))
    serve.expect(named - there, set(), "named by the dashboard and not there")
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in named}
    serve.expect(families - shown, {"process_start_time_seconds"}, "there, and not shown")
    rules = kit.example("prometheus/alerts.yml")
    for name in re.findall(r"\b(?:rate_limit|ration)_\w+", rules):
        serve.expect(name in there, True, f"alerts.yml: {name}")


def test_the_dashboard_is_valid():
    board = dashboard()
    panels = board["panels"]
    serve.expect(len({panel["id"] for panel in panels}), len(panels), "ids")
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        serve.expect(taken & cells, set(), f"{panel['title']} lies on another")
        serve.expect(place["x"] + place["w"] <= 24, True, panel["title"])
        taken |= cells
        for target in panel["targets"]:
            serve.expect(target["datasource"]["uid"], "${DS_PROM}")
    serve.expect([value["name"] for value in board["__inputs"]], ["DS_PROM"])


def test_alerts():
    with tempfile.TemporaryDirectory(prefix="ration-e2e-") as folder:
        for path in (os.path.join(kit.EXAMPLES, "prometheus", "alerts.yml"),
                     os.path.join(kit.EXAMPLES, "prometheus", "prometheus.yml"),
                     os.path.join(HERE, "alerts_test.yml")):
            shutil.copy(path, folder)
        for arguments in (("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml"),
                          ("test", "rules", "alerts_test.yml")):
            status, said = promtool(*arguments, folder=folder)
            serve.expect(status, 0, said)
        tried = open(os.path.join(folder, "alerts_test.yml"), encoding="utf-8").read()
        for name in re.findall(r"alert: (\w+)", kit.example("prometheus/alerts.yml")):
            serve.expect(tried.count(name) >= 2, True, f"{name} is not tried")


if __name__ == "__main__":
    serve.run()
