#!/usr/bin/env python3
"""Inline limits that take years to fill cannot lock others out (max-inline-fill), an operator can clear the inline
limits in use (RATION.FLUSH INLINE, POST /v1/reset), and a full table of slow limits does not affect fast ones.

    poison_test.py RATION
"""
import json

import attack_kit as kit
import serve

DAY_S = 86400
KEYS_MAX = 1000
REASON = "takes longer to fill than max-inline-fill"


def inline_json(key, limit):
    return json.dumps({"key": key, "limit": limit}).encode()


def post(server, path, body):
    status, _, got = server.http("POST", path, body, {"Content-Type": "application/json"})
    return status, got


def get(server, path):
    status, _, got = server.http("GET", path)
    return status, got


def test_a_limit_that_fills_too_slowly_is_refused_everywhere():
    with kit.server(options=["--manual-clock", "--admin-secret", "admin"]) as server:
        client = server.resp()
        for words in (["CL.THROTTLE", "k", 0, 1, DAY_S + 1], ["CL.THROTTLE", "k", 1, 1, DAY_S],
                      ["GCRA", "k", 0, 1, DAY_S + 1], ["CL.THROTTLE", "evil", 0, 1, 500000000]):
            answer = client.ask(*words)
            assert isinstance(answer, serve.RespError) and REASON in repr(answer), (words, answer)
        serve.expect(client.ask("CL.THROTTLE", "k", 0, 1, DAY_S), [0, 1, 0, -1, DAY_S])
        status, _, body = server.http("GET", "/v1/check?key=u&limit=1/365d%20burst%2016&cost=15", None,
                                      {"Authorization": "Bearer admin"})
        assert status == 400 and REASON in str(body), (status, body)
        for limit in ("2 per 25h", {"tokens": 1, "period": "25h"}):
            status, body = post(server, "/v1/check", inline_json("u", limit))
            assert status == 400 and REASON in str(body), (limit, status, body)
        batch = json.dumps({"checks": [{"key": "u", "limit": "1 per 25h"}, {"key": "u", "limit": "1/s"}]}).encode()
        status, body = post(server, "/v1/check", batch)
        assert status == 200 and str(body).count(REASON) == 1 and '"allow"' in json.dumps(body), body


def test_the_bound_is_a_setting():
    with kit.server(options=["--manual-clock", "--max-inline-fill", "1min"]) as server:
        client = server.resp()
        serve.expect(client.ask("CL.THROTTLE", "k", 0, 1, 60)[0], 0)
        assert REASON in repr(client.ask("CL.THROTTLE", "k", 0, 1, 61))
    with kit.server(options=["--manual-clock", "--max-inline-fill", "0"]) as server:
        serve.expect(server.resp().ask("CL.THROTTLE", "k", 0, 1, 500000000)[0], 0)


def allowed_of_new(client, prefix):
    answers = client.pipeline([["CL.THROTTLE", f"{prefix}{number}", 9, 10, 60] for number in range(100)])
    return sum(answer[0] == 0 for answer in answers)


def test_a_poisoned_table_is_cleared():
    """Every slot holds a key for a day; new clients share one bucket until an operator clears the table."""
    options = ["--manual-clock", "--threads", "1", "--inline-keys", str(KEYS_MAX)]
    for clear in ("resp", "http"):
        with kit.server(options=options) as server:
            client = server.resp()
            client.ask("RATION.CLOCK", "SET", 10**17)
            for first in range(0, 20000, 1000):
                client.pipeline([["CL.THROTTLE", f"evil{number}", 0, 1, DAY_S]
                                 for number in range(first, first + 1000)])
            answer = client.ask("CL.THROTTLE", "evil", 0, 1, DAY_S)
            serve.expect(answer[0], 1, "the table is full")
            assert allowed_of_new(client, "new") >= 10, "the shared bucket admits new clients"
            denied = client.ask("CL.THROTTLE", "late", 9, 10, 60)
            assert denied[0] == 0 or denied[3] <= 60, f"the reported wait is {denied[3]} s"
            if clear == "resp":
                serve.expect(client.ask("RATION.FLUSH", "INLINE"), "OK")
            else:
                status, body = post(server, "/v1/reset", b'{"inline": true}')
                assert status == 200, body
            serve.expect(allowed_of_new(client, "after"), 100, clear)
            serve.expect(client.ask("CL.THROTTLE", "evil7", 0, 1, DAY_S)[0], 0, "as new")
            serve.expect(client.ask("CL.THROTTLE", "evil7", 0, 1, DAY_S)[0], 1, "and limited again")


def test_a_flush_of_anything_else_is_an_error():
    with kit.server() as server:
        client = server.resp()
        for words in (["RATION.FLUSH"], ["RATION.FLUSH", "ALL"]):
            assert isinstance(client.ask(*words), serve.RespError), words
        for body in (b'{"inline": false}', b'{"inline": true, "key": "k"}', b'{"inline": 1}'):
            serve.expect(post(server, "/v1/reset", body)[0], 400, body)


serve.run()
