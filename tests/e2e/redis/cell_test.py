#!/usr/bin/env python3
"""redis-cell's published vectors for CL.THROTTLE, against a server whose limits are in Redis (R9).

    cell_test.py RATION THROTTLE.ROWS
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import redis_kit
import serve

BINARY, ROWS = sys.argv[1:3]


def read_rows():
    """(name, arguments of the key, ms, quantity, the five numbers of the reply) of each row. Each key gets a name."""
    rows, key, number = [], None, 0
    with open(ROWS, encoding="utf-8") as file:
        for line in file:
            words = line.partition("#")[0].split()
            if words[:1] == ["key"]:
                key, number = words[1:], number + 1
            elif words:
                rows.append((f"k{number}", key, int(words[0]), words[1], [int(word) for word in words[2:]]))
    assert len(rows) >= 30, "too few rows"
    return rows


def test_R9_vectors_of_redis_cell():
    with redis_kit.Redis() as redis, \
            redis_kit.serve_with(BINARY, redis.url, options=["--manual-clock"], deadline_ms=10000) as server:
        client = server.resp()
        redis_kit.wait_called(redis, client)
        redis.ask("CONFIG", "RESETSTAT")
        rows = read_rows()
        for name, arguments, ms, quantity, wanted in rows:
            serve.expect(client.ask("RATION.CLOCK", "SET", ms * 10 ** 6), "OK")
            serve.expect(client.ask("CL.THROTTLE", name, *arguments, quantity), wanted,
                         f"{name} {arguments} at {ms} ms, {quantity}")
        serve.expect(redis.calls("evalsha", "eval"), len(rows), "calls of the script")
        print(f"{len(rows)} rows")


def test_R9_vectors_in_a_pipeline():
    """All vectors in one pipeline."""
    with redis_kit.Redis() as redis, \
            redis_kit.serve_with(BINARY, redis.url, options=["--manual-clock"], deadline_ms=10000) as server:
        client = server.resp(version=3)
        redis_kit.wait_called(redis, client)
        commands, wanted = [], []
        for name, arguments, ms, quantity, answer in read_rows():
            commands += [("RATION.CLOCK", "SET", ms * 10 ** 6), ("CL.THROTTLE", name, *arguments, quantity)]
            wanted += ["OK", answer]
        serve.expect(client.pipeline(commands), wanted)


serve.run()
