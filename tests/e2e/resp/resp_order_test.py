#!/usr/bin/env python3
"""The order of replies, and requests split in any way: pipelines of all commands, up to the longest allowed.

    resp_order_test.py RATION
"""
import random
import subprocess

from resp_kit import BINARY, MANY, PAIRS, POLICY, arity, cell, decision, encode, say
import serve
from serve import RespError, expect


def test_pipelines_of_everything_keep_their_order():
    """Checks are decided in batches, and other commands in between do not overtake them."""
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock"]) as server:
        choice = random.Random(7)
        kinds = [
            lambda n: ((b"CL.THROTTLE", f"t{n}", n % 1000, 1, 60), [0, n % 1000 + 1, n % 1000, -1, 60]),
            lambda n: (("CL.THROTTLE", "x", "y", 1, 1), cell("Couldn't parse as integer: y")),
            lambda n: (("GCRA", f"g{n}", n % 1000, 1, 60), [0, n % 1000 + 1, n % 1000, -1, 60]),
            lambda n: (("RATION.PEEK", "COST", 0, "path", "/login", "ip", f"10.0.{n // 256 % 256}.{n % 256}", "n", n),
                       encode(decision("allow", "login", 3, 3, 0, 0), 2)),
            lambda n: (("RATION.PEEK", "COST", n, "colour", "red"), encode(decision("allow", None, None, None, 0, None), 2)),
            lambda n: (("RATION.CHECK", "odd"), PAIRS),
            lambda n: (("RATION.CHECK", *MANY), RespError("ERR a request has at most 64 attributes")),
            lambda n: (("ECHO", n), str(n).encode()),
            lambda n: (("nonsense", n), RespError(f"ERR unknown command 'nonsense', with args beginning with: '{n}' ")),
            lambda n: (("RATION.RESET", "path", "/login", "ip", "192.0.2.9"), 1),
            lambda n: (("PING", "x", "y"), arity("ping")),
        ]
        client = server.resp()
        for length in 1, 10, 3000:
            picked = [choice.choice(kinds)(number) for number in range(length)]
            runs = [kind(number) for kind in kinds for number in range(150)]
            for asked in picked, runs:
                sent = b"".join(serve.Resp.encode(*words) for words, _ in asked)
                wanted = b"".join(value if isinstance(value, bytes) and value.startswith(b"*") else encode(value, 2)
                                  for _, value in asked)
                client.socket.sendall(sent)
                expect(client.read_raw(len(wanted)) == wanted, True, "the order of answers")
                expect(client.ask("DEL", *[word[1] for word, _ in asked if word[0] in (b"CL.THROTTLE", "GCRA")], "-") >= 0, True)


def test_requests_in_any_pieces():
    """Byte by byte, and split at every position."""
    request = serve.Resp.encode("CL.THROTTLE", "k", 4, 1, 60, 0) + b"PING a\r\n" + serve.Resp.encode("ECHO", b"\r\n$1")
    wanted = encode([0, 5, 5, -1, 0], 2) + encode(b"a", 2) + encode(b"\r\n$1", 2)
    with serve.Server(BINARY, http="none") as server:
        client = server.resp()
        for byte in request:
            client.socket.sendall(bytes([byte]))
        expect(client.read_raw(len(wanted)), wanted)
        for cut in range(1, len(request)):
            client.socket.sendall(request[:cut])
            client.socket.sendall(request[cut:])
            expect(client.read_raw(len(wanted)), wanted, f"cut at {cut}")


def test_a_limit_replaced_while_others_are_pending():
    """A batch has 256 slots for inline limits: one write here has more limits than that."""
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        client = server.resp()
        commands = [("CL.THROTTLE", f"k{number}", number, 1, 60) for number in range(900)]
        for _ in range(2):
            expect([answer[1] for answer in client.pipeline(commands)], [number + 1 for number in range(900)])


def test_the_longest_pipeline_that_may_be_set():
    """As many requests as a batch may hold, and one more; a larger setting is refused at the start."""
    with serve.Server(BINARY, http="none", options=["--max-pipeline", "1024", "--manual-clock"]) as server:
        answers = server.resp().pipeline([("CL.THROTTLE", "k", 9999, 10, 60)] * 5000)
        expect([answer[2] for answer in answers], list(range(9999, 4999, -1)))
    done = subprocess.run([BINARY, "serve", "--max-pipeline", "1025", "--http", "none", "--resp", "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and "--max-pipeline" in done.stderr, done


def test_a_port_of_another_protocol():
    """A browser or a proxy that uses the wrong port gets no reply, and none of its commands is executed."""
    with serve.Server(BINARY) as server:
        expect(say(server.resp_port, b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nPING\r\n"), b"")
        expect(say(server.resp_port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE k 4 1 60\r\n"), b"")
        expect(server.resp().ask("DBSIZE"), 0)
        assert say(server.http_port, b"*1\r\n$4\r\nPING\r\n").startswith(b"HTTP/1.1 400 ")


if __name__ == "__main__":
    serve.run()
