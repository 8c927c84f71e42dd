#!/usr/bin/env python3
"""The policy changes between very different sizes while clients read every list of limits: the server stays up, and
each reply describes one whole policy."""
import re
import sys
import threading
import time

import attack_kit as kit
import serve

LARGE_COUNT = 300
RELOADS = 60 if not kit.IS_SANITIZED else 16

# To /p299 only the last limit of the large policy applies, and the only limit of the small policy.
LARGE = "limits:\n" + "".join(
    f"  - {{name: a{number}, key: ip, match: {{path: /p{number}}}, rate: {number + 1}/h, max_keys: 100}}\n"
    for number in range(LARGE_COUNT))
SMALL = "limits: [{name: only, key: ip, rate: 7/h, max_keys: 100}]\n"
CHECK = {"attributes": {"path": f"/p{LARGE_COUNT - 1}", "ip": "192.0.2.1"}}
QUOTAS = {f"a{LARGE_COUNT - 1}": LARGE_COUNT, "only": 7}
NAMES = {f"a{number}" for number in range(LARGE_COUNT)}


def expect_whole(names):
    """Checks that names are all limits of one of the two policies, not a part of one or a mixture."""
    assert names == ["only"] or (len(names) == LARGE_COUNT and set(names) == NAMES), \
        f"{len(names)} limits: {names[:3]} ..."


def limits_over_resp(server):
    expect_whole([serve.pairs(limit)[b"name"].decode()
                  for limit in server.client.ask("RATION.LIMITS")])


def info(server):
    for section in ("", "ration", "keyspace"):
        answer = server.client.ask(*["INFO", section][:1 + bool(section)])
        assert isinstance(answer, bytes), answer


def size_and_top(server):
    assert isinstance(server.client.ask("DBSIZE"), int)
    for command in (["RATION.TOP"], ["RATION.TOP", "BY", "COST", "COUNT", "100"]):
        assert isinstance(server.client.ask(*command), list)
    for name in QUOTAS:  # one of them does not exist at the moment
        answer = server.client.ask("RATION.TOP", "LIMIT", name)
        assert isinstance(answer, list) or "there is no limit" in answer.text, answer


def checks_over_resp(server):
    words = [word for pair in CHECK["attributes"].items() for word in pair]
    for answer in server.client.pipeline([["RATION.CHECK", *words], ["RATION.PEEK", *words]] * 8):
        answer = serve.pairs(answer)
        serve.expect(answer[b"burst"], QUOTAS[answer[b"limit"].decode()], "burst of the limit")
    for command in (["RATION.REFUND"], ["RATION.RESET"], ["RATION.BLOCK", "MS", "1"]):
        answer = server.client.ask(*command, *words)
        assert isinstance(answer, int) and answer <= 1, answer
        for name in QUOTAS:
            answer = server.client.ask(*command, "LIMIT", name, *words)
            assert answer == 1 or "there is no limit" in answer.text, answer


def limits_over_http(server):
    status, _, body = server.http("GET", "/v1/limits", connection=server.connection)
    serve.expect(status, 200)
    expect_whole([limit["name"] for limit in body["limits"]])


def metrics_and_top(server):
    status, _, body = server.http("GET", "/metrics", connection=server.connection)
    serve.expect(status, 200)
    names = re.findall(rb'ration_table_max_keys\{limit="([a-z0-9]+)"', body)
    expect_whole([name.decode() for name in names if name != b"inline"])
    for query in ("", "?by=cost&count=100"):
        serve.expect(server.http("GET", "/v1/top" + query, connection=server.connection)[0], 200)


def checks_over_http(server):
    path = "/v1/check?path={path}&ip={ip}".format(**CHECK["attributes"])
    status, headers, _ = server.http("GET", path, connection=server.connection)
    assert status in (200, 429), status
    for name, quota in re.findall(r'"(\w+)";q=(\d+)', headers["RateLimit-Policy"]):
        serve.expect(int(quota), QUOTAS[name], f"quota of {name}")
    names = re.findall(r'"(\w+)";r=', headers["RateLimit"])
    serve.expect(names, re.findall(r'"(\w+)";q=', headers["RateLimit-Policy"]), "names of both headers")
    status, _, body = server.http("POST", "/v1/check", {"checks": [CHECK] * 20},
                                  connection=server.connection)
    serve.expect(status, 200)
    for one in body["results"]:
        serve.expect(one["burst"], QUOTAS[one["limit"]], f"burst of {one['limit']}")
    for path, more in (("/v1/refund", {"tokens": 1}), ("/v1/block", {"seconds": 1}), ("/v1/reset", {})):
        for name in QUOTAS:
            status = server.http("POST", path, {**CHECK, **more, "limit": name},
                                 connection=server.connection)[0]
            assert status in (200, 404), (path, status)


class Reader(threading.Thread):
    """A client that repeats the same request."""

    def __init__(self, server, read):
        super().__init__(daemon=True)
        self.server, self.read = server, read
        self.client, self.connection, self.http = server.resp(), server.http_connection(), server.http
        self.count, self.error, self.is_reported = 0, None, False

    def run(self):
        try:
            while not self.is_reported:
                self.read(self)
                self.count += 1
        except Exception as error:  # reported by the test
            self.error = f"{self.read.__name__}: {error!r}"


READS = (limits_over_resp, info, size_and_top, checks_over_resp, limits_over_http, metrics_and_top,
         checks_over_http)


def read_during_reloads(server):
    readers = [Reader(server, read) for read in READS]
    for reader in readers:
        reader.start()
    control = server.http_connection()
    for number in range(RELOADS):
        server.write_policy(SMALL if number % 2 == 0 else LARGE)
        serve.expect(server.http("POST", "/v1/reload", connection=control)[0], 200)
        counts = [reader.count for reader in readers]
        deadline = time.monotonic() + kit.WAIT_SECONDS  # until some clients have read under each policy
        while all(reader.count == count for reader, count in zip(readers, counts)) and \
                all(reader.error is None for reader in readers) and time.monotonic() < deadline:
            time.sleep(0.001)
    for reader in readers:
        reader.is_reported = True
    for reader in readers:
        reader.join(kit.WAIT_SECONDS)
    serve.expect([reader.error for reader in readers if reader.error], [], "errors")
    serve.expect([reader.is_alive() for reader in readers], [False] * len(readers), "still reading")
    assert all(reader.count > 0 for reader in readers), [reader.count for reader in readers]


def test_every_list_of_limits_is_of_one_policy():
    with kit.server(LARGE, ["--threads", "2"]) as server:
        read_during_reloads(server)



def test_requests_to_reload_do_not_flood_the_log():
    """The server answers and counts each request; the log has a bounded number of lines and says how many it omitted."""
    requests = 600
    with kit.server(SMALL) as server:
        client = server.resp()
        began = time.monotonic()
        for _ in range(requests):
            serve.expect(client.ask("RATION.RELOAD"), b"nothing has changed")
        seconds = time.monotonic() - began
        serve.expect(kit.metrics(server)['ration_reloads_total{result="done"}'], requests)
        server.stop()
        lines = [line for line in server.lines if "reloaded the policy" in line]
        assert len(lines) <= 200 + seconds + 1, f"{len(lines)} lines in {seconds} s"
        missing = sum(int(found.group(1)) for line in server.lines
                      if (found := re.search(r"(\d+) lines about the outcome of reloads were not logged", line)))
        serve.expect(missing, requests - len(lines), "lines that were not logged")


serve.run()
