#!/usr/bin/env python3
"""The metrics of the server: their format, values and bounds.

    metrics_test.py RATION
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY = os.path.abspath(sys.argv[1])
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOP_KEYS_MAX = 20
LIMITS_MAX = 4096
NAME_MAX = 63

POLICY = """
limits:
  - {name: api, match: {path: {prefix: /api/}}, key: user, rate: 2/min}
  - {name: shy, match: {path: {prefix: /api/}}, key: user, rate: 1/min, shadow: true}
  - {name: big, match: {path: /big}, key: user, rate: 10/min}
  - {name: peer, match: {path: /ip}, key: ip, rate: 1/min}
  - {name: full, match: {path: /full}, key: user, rate: 1/min, max_keys: 1, overflow: deny}
exempt:
  - user: root
banned:
  - user: mallory
"""

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$')


def scrape(server, headers=None):
    status, answer, body = server.http("GET", "/metrics", headers=headers)
    serve.expect((status, answer["Content-Type"]), (200, CONTENT_TYPE))
    return body.decode("ascii")


def samples(text):
    """{'name{labels}': value}; a duplicate series is an error."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        serve.expect(name + (labels or "") in found, False, f"twice: {line}")
        found[name + (labels or "")] = float(value)
    return found


def check_format(text):
    """promtool reports nothing, and our own checks pass."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    serve.expect((done.returncode, done.stdout), (0, b""), "promtool")
    serve.expect(text.endswith("\n"), True)
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    serve.expect(len(families), len(set(families)), "families that are reported twice")
    check_histogram(samples(text), "rate_limit_acquire_duration_seconds")


def check_histogram(values, name):
    """Buckets are in order of their bounds and cumulative; the last one counts all."""
    found = [(float(re.search('le="(.*)"', series).group(1)), value)
             for series, value in values.items() if series.startswith(name + "_bucket")]
    serve.expect(found, sorted(found), "buckets")
    serve.expect([value for _, value in found], sorted(value for _, value in found), "buckets")
    serve.expect(found[-1], (float("inf"), values[name + "_count"]), "the last bucket")
    serve.expect(values[name + "_sum"] >= 0, True)


def changes(before, after):
    return {name: value - before.get(name, 0) for name, value in after.items()
            if value != before.get(name, 0)}


def test_a_fresh_server():
    with serve.Server(BINARY) as server:
        text = scrape(server)
        check_format(text)
        serve.expect(samples(text)['rate_limit_acquire_total{limit="login",result="denied"}'], 0,
                     "zero is reported, so that rates begin")
        status, headers, body = server.http("HEAD", "/metrics")
        serve.expect((status, headers["Content-Type"], body), (200, CONTENT_TYPE, b""))


ACQUIRE = 'rate_limit_acquire_total{limit="%s",result="%s"}'

# Commands, and the samples that they change, and by how much; the clock does not advance.
ROWS = (
    ([("RATION.CHECK", "path", "/api/x", "user", "a")],
     {ACQUIRE % ("api", "allowed"): 1, ACQUIRE % ("shy", "allowed"): 1,
      'ration_allowed_tokens_total{limit="api"}': 1,
      'ration_allowed_tokens_total{limit="shy"}': 1,
      'ration_near_limit_total{limit="shy"}': 1,
      'ration_table_keys{limit="api"}': 1, 'ration_table_keys{limit="shy"}': 1}),
    ([("RATION.CHECK", "path", "/api/x", "user", "a")],
     {ACQUIRE % ("api", "allowed"): 1,
      'ration_allowed_tokens_total{limit="api"}': 1, 'ration_near_limit_total{limit="api"}': 1,
      'ration_shadow_denied_total{limit="shy"}': 1}),
    (3 * [("RATION.CHECK", "path", "/api/x", "user", "a")],
     {ACQUIRE % ("api", "denied"): 3,
      'ration_shadow_denied_total{limit="shy"}': 3,
      'rate_limit_tokens{limit="api",key="a"}': 0}),
    ([("RATION.CHECK", "COST", "3", "path", "/big", "user", "a")],
     {ACQUIRE % ("big", "allowed"): 1, 'ration_allowed_tokens_total{limit="big"}': 3,
      'ration_table_keys{limit="big"}': 1}),
    ([("RATION.CHECK", "COST", "6", "path", "/big", "user", "a")],
     {ACQUIRE % ("big", "allowed"): 1, 'ration_allowed_tokens_total{limit="big"}': 6,
      'ration_near_limit_total{limit="big"}': 1}),
    ([("RATION.CHECK", "COST", "11", "path", "/big", "user", "a")],
     {ACQUIRE % ("big", "never"): 1, 'rate_limit_tokens{limit="big",key="a"}': 1}),
    ([("RATION.CHECK", "path", "/free")], {'ration_unlimited_total{reason="no_match"}': 1}),
    (2 * [("RATION.CHECK", "path", "/api/x", "user", "root")],
     {'ration_unlimited_total{reason="exempt"}': 2}),
    ([("RATION.CHECK", "path", "/api/x", "user", "mallory")], {"ration_banned_total": 1}),
    ([("RATION.CHECK", "path", "/ip", "ip", "999.1.2.3")],
     {"ration_errors_total": 1, 'ration_request_errors_total{protocol="resp"}': 1}),
    ([("CL.THROTTLE", "k", "0", "1", "60")],
     {ACQUIRE % ("inline", "allowed"): 1, 'ration_allowed_tokens_total{limit="inline"}': 1,
      'ration_near_limit_total{limit="inline"}': 1,
      'ration_table_keys{limit="inline"}': 1}),
    (2 * [("CL.THROTTLE", "k", "0", "1", "60")], {ACQUIRE % ("inline", "denied"): 2}),
    ([("NO.SUCH.COMMAND",)], {'ration_request_errors_total{protocol="resp"}': 1}),
)

# Samples that change without a command, or by the scrape itself.
RESTLESS = re.compile(r"process_|ration_(connections|received|sent|requests)|rate_limit_acquire_duration")


def steady(values):
    return {name: value for name, value in values.items() if not RESTLESS.match(name)}


def test_samples_count_the_commands():
    with serve.Server(BINARY, POLICY, options=["--manual-clock"]) as server:
        client = server.resp()
        now = samples(scrape(server))
        for commands, wanted in ROWS:
            before = now
            for command in commands:
                client.ask(*command)
            text = scrape(server)
            now = samples(text)
            got = changes(steady(before), steady(now))
            got.update({name: value for name, value in now.items()
                        if name.startswith("rate_limit_tokens") and name not in before})
            serve.expect(got, wanted, f"{commands[0]}")
            serve.expect(changes(before, now).get('ration_requests_total{protocol="resp"}'),
                         len(commands), "requests")
            serve.expect(changes(before, now).get('ration_requests_total{protocol="http"}'), 1,
                         "requests")
        check_format(text)


def test_one_batch_in_16_is_timed():
    with serve.Server(BINARY, POLICY, options=["--threads", "1"]) as server:
        client = server.resp()
        for _ in range(160):
            client.ask("RATION.CHECK", "path", "/free")
        text = scrape(server)
        check_format(text)
        name = "rate_limit_acquire_duration_seconds"
        serve.expect(samples(text)[name + "_count"], 10)
        serve.expect(0 < samples(text)[name + "_sum"] < 60, True)


def test_overflow_is_counted():
    with serve.Server(BINARY, POLICY, options=["--manual-clock"]) as server:
        server.resp().pipeline(
            [("RATION.CHECK", "path", "/full", "user", str(i)) for i in range(1000)])
        now = samples(scrape(server))
        overflow = now['ration_overflow_total{limit="full",rule="deny"}']
        serve.expect(overflow > 0, True)
        serve.expect(now['ration_table_keys{limit="full"}'] + overflow, 1000)
        serve.expect(now[ACQUIRE % ("full", "denied")], overflow)
        serve.expect(now['ration_overflow_total{limit="full",rule="shared"}'], 0)
        serve.expect(now['ration_table_max_keys{limit="full"}'], 1)


def test_denials_are_no_errors():
    """Whatever their status: nginx needs 403. A ban is also a denial."""
    with serve.Server(BINARY, POLICY, options=["--manual-clock"]) as server:
        checks = ["/v1/check?path=/api/x&user=a&deny_status=403"] * 4 + \
                 ["/v1/check?path=/api/x&user=a"] * 2 + ["/v1/check?user=mallory"]
        serve.expect([server.http("GET", check)[0] for check in checks],
                     [200, 200, 403, 403, 429, 429, 403])
        now = samples(scrape(server))
        serve.expect(now['ration_request_errors_total{protocol="http"}'], 0)
        serve.expect(now["ration_banned_total"], 1)
        serve.expect(server.http("GET", "/nowhere")[0], 404)
        serve.expect(server.http("GET", "/v1/check?cost=x")[0], 400)
        serve.expect(samples(scrape(server))['ration_request_errors_total{protocol="http"}'], 2)


def test_reloads_and_secrets_are_counted():
    with serve.Server(BINARY, POLICY, options=["--admin-secret", "secret"]) as server:
        token = {"Authorization": "Bearer secret"}
        serve.expect(server.http("POST", "/v1/reload", headers=token)[0], 200)
        server.write_policy("limits: [")
        serve.expect(server.http("POST", "/v1/reload", headers=token)[0] >= 400, True)
        serve.expect(server.http("POST", "/v1/reload")[0], 401)
        now = samples(scrape(server))
        serve.expect((now['ration_reloads_total{result="done"}'],
                      now['ration_reloads_total{result="refused"}'],
                      now["ration_auth_failures_total"]), (1, 1, 1))


def deny(client, keys, path="/api/x"):
    """Sends checks for each key until it is denied; the key is user."""
    for key in keys:
        client.ask("RATION.CHECK", "COST", "2", "path", path, "user", key)
    for key in keys:
        client.ask("RATION.CHECK", "path", path, "user", key)


def test_keys_may_be_any_bytes():
    with serve.Server(BINARY, POLICY, options=["--manual-clock"]) as server:
        keys = [b"\x01", b"\\x01", b"\\\\x01", b'"', b"\\", b"\\\"", b"\n", b"\r\n# TYPE x gauge\n",
                b"\xff\xfe\x00", "sch\u00f6n".encode(), b"a}", b"{a=\"b\"} 7", b"", b"\x7f", b" "]
        deny(server.resp(), keys)
        text = scrape(server)
        check_format(text)
        shown = [name for name in samples(text) if name.startswith("rate_limit_tokens{")]
        serve.expect(len(shown), len(keys), "distinct keys")


def test_the_number_of_keys_is_bounded():
    with serve.Server(BINARY, POLICY, options=["--manual-clock"]) as server:
        client = server.resp()
        before = len(samples(scrape(server)))
        checks = [("RATION.CHECK", "COST", "2", "path", "/api/x", "user", f"user-{i}-" + "x" * (i % 90))
                  for i in range(10000)]
        for first in range(0, len(checks), 500):
            client.pipeline(checks[first:first + 500])
            client.pipeline(checks[first:first + 500])
        text = scrape(server)
        check_format(text)
        now = samples(text)
        serve.expect(now[ACQUIRE % ("api", "denied")], 10000)
        shown = sum(name.startswith("rate_limit_tokens") for name in now)
        serve.expect(0 < shown <= TOP_KEYS_MAX, True, f"{shown} series of keys")
        serve.expect(len(now) <= before + TOP_KEYS_MAX, True, f"{len(now)} series")


def test_keys_are_reported_only_with_the_token():
    with serve.Server(BINARY, POLICY, options=["--manual-clock", "--admin-secret", "secret"]) as server:
        deny(server.resp(), ["alice"])
        serve.expect("alice" in scrape(server), False, "reported without the token")
        serve.expect("alice" in scrape(server, {"Authorization": "Bearer wrong"}), False)
        text = scrape(server, {"Authorization": "Bearer secret"})
        serve.expect('rate_limit_tokens{limit="api",key="alice"} 0' in text, True, "reported with the token")
        check_format(scrape(server))


def many_limits(count):
    name = "n" * (NAME_MAX - 5)
    return "limits:\n" + "".join(
        f"  - {{name: {name}{i:05}, match: {{path: /{i}}}, key: user, rate: 10/s, max_keys: 1}}\n"
        for i in range(count))


def test_a_thousand_limits():
    with serve.Server(BINARY, many_limits(1000)) as server:
        server.resp().ask("RATION.CHECK", "path", "/7", "user", "a")
        text = scrape(server)
        check_format(text)
        serve.expect(samples(text)[ACQUIRE % ("n" * (NAME_MAX - 5) + "00007", "allowed")], 1)


def test_the_largest_policy_fits():
    with serve.Server(BINARY, many_limits(LIMITS_MAX)) as server:
        text = scrape(server)
        serve.expect(len(samples(text)) > LIMITS_MAX * 10, True)
        serve.expect(text.count("result=\"denied\""), LIMITS_MAX + 1)


def test_metrics_that_do_not_fit_are_an_error():
    options = ["--max-output", "20000"]
    with serve.Server(BINARY, many_limits(100), options=options) as server:
        connection = server.http_connection()
        status, headers, body = server.http("GET", "/metrics", connection=connection)
        serve.expect((status, headers["Content-Type"]), (500, "application/problem+json"))
        serve.expect("max-output" in body["detail"], True, body)
        serve.expect(server.http("GET", "/healthz", connection=connection)[0], 200, "and the connection continues")


def test_the_name_of_inline_limits_is_reserved():
    """Inline limits are reported as "inline", so a policy must not use that name: each series is reported once."""
    policy = "limits:\n  - {name: other, rate: 1/s}\n  - {name: inline, rate: 1/s}\n"
    try:
        serve.Server(BINARY, policy)
    except AssertionError as error:
        serve.expect("policy.yaml:3:12:" in str(error) and "inline" in str(error), True, str(error))
        return
    raise AssertionError("a limit of this name was accepted")


if __name__ == "__main__":
    serve.run()
