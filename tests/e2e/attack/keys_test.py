#!/usr/bin/env python3
"""Keys of all kinds, over every protocol: each is limited or refused with an error; no key passes unlimited (R10).
TOP, metrics and the log show keys escaped and bounded.

    keys_test.py RATION
"""
import json
import re
import urllib.parse

import attack_kit as kit
import serve

KEY_SIZE_MAX = 65535
SHOWN_MAX = 64
BURST = 3
POLICY = f"""limits:
  - {{name: user, match: {{path: /user}}, key: user, rate: 1/h, burst: {BURST}}}
  - {{name: header, match: {{path: /header}}, key: header.x-key, rate: 1/h, burst: {BURST}}}
  - {{name: both, match: {{path: /both}}, key: [user, plan], rate: 1/h, burst: {BURST}}}
"""

ODD = (b"", b" ", b"\0", b"a\0b", b"a\0c", b"\r\n", b"\n", b"a\r\nSet-Cookie: b", b"\xff\xfe", b"\xc3\x28",
       b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b'"\\', b"\x1b[31mred", b"\x7f", "\u202eevil".encode(),
       b"%00", b"*", b"../../etc/passwd", b"{}", b"a" * 64, b"a" * 65, b"a" * 1000, b"-1", b"null")


def allowed_of(ask, times=BURST + 2):
    return [ask() for _ in range(times)]


LIMITED = [True] * BURST + [False] * 2


def resp_check(client, *attributes):
    answer = client.ask("RATION.CHECK", *attributes)
    return answer.text if isinstance(answer, serve.RespError) else serve.pairs(answer)[b"verdict"] == b"allow"


def resp_throttle(client, key):
    answer = client.ask("CL.THROTTLE", key, BURST - 1, 1, 3600)
    return answer.text if isinstance(answer, serve.RespError) else answer[0] == 0


def test_odd_keys_in_resp_are_limited():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        client = server.resp()
        for key in ODD + (b"b" * KEY_SIZE_MAX, bytes(range(256)) * 255):
            serve.expect(allowed_of(lambda: resp_throttle(client, key)), LIMITED, f"throttle {key[:20]!r}")
        for key in ODD:
            serve.expect(allowed_of(lambda: resp_check(client, "path", "/user", "user", key)), LIMITED,
                         f"check {key[:20]!r}")


def test_keys_that_are_too_long_are_refused():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        client = server.resp()
        too_long = b"a" * (KEY_SIZE_MAX + 1)
        for _ in range(BURST + 2):
            answer = resp_throttle(client, too_long)
            assert isinstance(answer, str) and "65535" in answer, answer
            answer = resp_check(client, "path", "/user", "user", too_long)
            assert isinstance(answer, str), answer
            # each half is short enough, both together are too long
            half = b"a" * (KEY_SIZE_MAX // 2 + 10)
            answer = resp_check(client, "path", "/both", "user", half, "plan", half)
            assert isinstance(answer, str), answer
            for body in ({"key": "a" * (KEY_SIZE_MAX + 1), "limit": "3/h"},
                         {"attributes": {"path": "/user", "user": "a" * (KEY_SIZE_MAX + 1)}},
                         {"attributes": {"path": "/both", "user": "a" * 40000, "plan": "b" * 40000}}):
                serve.expect(server.http("POST", "/v1/check", body)[0], 400, list(body))
        said = server.raw(server.resp_port, b"*5\r\n$11\r\nCL.THROTTLE\r\n$65537\r\n")
        serve.expect(said, b"-ERR Protocol error: invalid bulk length\r\n")
        # Two-part keys that just fit are limited.
        half = b"a" * 8000
        serve.expect(allowed_of(lambda: resp_check(client, "path", "/both", "user", half, "plan", half)),
                     LIMITED)


def test_keys_of_two_parts_do_not_run_together():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        client = server.resp()
        for user, plan in ((b"a", b"bc"), (b"ab", b"c"), (b"abc", b""), (b"", b"abc"), (b"a\0", b"bc"),
                           (b"a", b"\0bc")):
            serve.expect(allowed_of(lambda: resp_check(client, "path", "/both", "user", user, "plan", plan)),
                         LIMITED, (user, plan))


def test_odd_keys_in_a_query_are_limited():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        connection = server.http_connection()
        for key in ODD:
            path = "/v1/check?path=/user&user=" + urllib.parse.quote_from_bytes(key, safe="")
            statuses = allowed_of(lambda: server.http("GET", path, connection=connection)[0])
            serve.expect(statuses, [200] * BURST + [429] * 2, f"query {key[:20]!r}")
        for path in ("/v1/check?path=/user&user=%", "/v1/check?path=/user&user=%zz",
                     "/v1/check?path=/user&user=a&user=b"):
            serve.expect(server.http("GET", path)[0], 400, path)
        serve.expect(server.http("GET", "/v1/check?path=/user&user=" + "a" * 9000)[0], 414)


def test_odd_keys_in_json_are_limited_or_refused():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        connection = server.http_connection()
        for key in ODD:
            body = b'{"attributes":{"path":"/user","user":"' + \
                re.sub(rb'[\x00-\x1f"\\]', lambda byte: b"\\u%04x" % byte[0][0], key) + b'"}}'
            answers = [server.http("POST", "/v1/check", body, {"Content-Type": "application/json"},
                                   connection) for _ in range(BURST + 2)]
            statuses = {answer[0] for answer in answers}
            try:
                key.decode()
                serve.expect([answer[2].get("allowed") for answer in answers], LIMITED, f"JSON {key!r}")
            except UnicodeDecodeError:  # not JSON
                serve.expect(statuses, {400}, f"JSON {key!r}")
            except AssertionError:  # a zero byte may also be refused, with an error
                serve.expect((statuses, b"\0" in key), ({400}, True), f"JSON {key!r}")


def test_odd_keys_in_a_header_are_limited():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        for key in [key for key in ODD if not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", key)] + [b"b" * 8192]:
            sent = (b"GET /v1/check?path=/header HTTP/1.1\r\nHost: h\r\nX-Key: %s\r\n\r\n" % key) * (BURST + 2)
            answers = kit.ask_http(server.http_port, sent, is_ended=True)
            statuses = [answer[0] for answer in answers]
            if key.strip(b" ") == b"":  # spaces around a value are not part of it: the value is empty
                serve.expect(429 in statuses, True, f"header {key!r}")
            else:
                serve.expect(statuses, [200] * BURST + [429] * 2, f"header {key[:20]!r}")
        answer = kit.ask_http(server.http_port, b"GET /v1/check?path=/header HTTP/1.1\r\nHost: h\r\nX-Key: %s\r\n\r\n"
                              % (b"b" * 8193), is_ended=True)[0]
        serve.expect(answer[0], 400, "a value above max-attribute-size")
        # All clients that do not send the header share one bucket.
        statuses = [server.http("GET", "/v1/check?path=/header")[0] for _ in range(BURST + 2)]
        serve.expect(statuses[-1], 429)


def test_a_query_cannot_displace_an_attribute_of_a_limit():
    """64 attributes in the query leave no room for the address: the request is refused, not admitted without a limit."""
    policy = "limits: [{name: a, key: ip, rate: 1/h, burst: 3, missing: skip}]"
    with kit.server(policy, ["--manual-clock"]) as server:
        for count, expected in ((64, [400] * 5), (63, [200] * 3 + [429] * 2)):
            path = "/v1/check?" + "&".join(f"a{number}=b" for number in range(count))
            serve.expect([server.http("GET", path)[0] for _ in range(5)], expected, count)


def test_keys_in_output_are_escaped_and_bounded():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        client = server.resp()
        for number, key in enumerate(ODD):
            for _ in range(BURST + 1 + number % 3):
                resp_check(client, "path", "/user", "user", key)
                resp_throttle(client, key)
        for row in client.ask("RATION.TOP", "COUNT", 100):
            assert len(serve.pairs(row)[b"key"]) <= SHOWN_MAX, row
        status, headers, body = server.http("GET", "/v1/top?count=100")
        serve.expect(status, 200)
        assert len(body["keys"]) > len(ODD) // 2, len(body["keys"])
        for row in body["keys"]:
            assert len(row["key"]) <= SHOWN_MAX * 4, row
        raw = kit.ask_http(server.http_port, b"GET /v1/top?count=100 HTTP/1.1\r\nHost: h\r\n"
                           b"Connection: close\r\n\r\n")[0][2]
        assert not re.search(rb"[\x00-\x1f\x7f]", raw.replace(b"\x7f", b"")), "control bytes in JSON"
        json.loads(raw.decode("utf-8", "strict"))
        text = server.http("GET", "/metrics")[2]
        assert re.fullmatch(rb"[\n -~]*", text), re.findall(rb"[^\n -~]", text)[:5]
        keys = re.findall(rb'^rate_limit_tokens\{[^\n]*', text, re.M)
        assert 0 < len(keys) <= 20, len(keys)
        for line in keys:
            assert re.fullmatch(rb'rate_limit_tokens\{(?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)+\} \d+', line), line
            assert len(line) < 600, line
        output = server.output()
        assert "evil" not in output and "\x1b" not in output, output
    for line in server.lines:
        assert re.fullmatch(r"[ -~]*", line) and len(line) < 5000, line


def test_pipelines_of_any_length_are_decided():
    """One read has more requests than are decided in one batch; each reply is checked."""
    for most in ("1", "7", "1024"):
        with kit.server(options=["--manual-clock", "--threads", "1", "--max-pipeline", most]) as server:
            client = server.resp()
            answers = client.pipeline([["CL.THROTTLE", "k", 999, 1, 60]] * 3000)
            serve.expect([answer[0] for answer in answers], [0] * 1000 + [1] * 2000, most)


serve.run()
