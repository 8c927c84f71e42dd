#!/usr/bin/env python3
"""Ten thousand idle connections: little memory each, and no cost for an active connection.

    idle_test.py RATION
"""
import statistics
import time

import attack_kit as kit
import serve

IDLE = 1000 if kit.IS_SANITIZED else 10000
BYTES_EACH_MAX = 16384 if not kit.IS_SANITIZED else 65536
SLOWER_MAX = 1.5
ROUNDS = 6
REQUESTS = 20000


def rate(server):
    """Requests a second of one busy client that pipelines."""
    with kit.connect(server.resp_port) as connection:
        batch = b"CL.THROTTLE k 1000000 1000000 1\r\n" * 100
        client = serve.Resp(server.resp_port)
        client.socket.sendall(batch)
        for _ in range(100):
            client.read()
        began = time.perf_counter()
        for _ in range(REQUESTS // 1000):
            connection.sendall(b"PING\r\n" * 1000)
            left = 7000
            while left:
                left -= len(connection.recv(left))
        seconds = time.perf_counter() - began
        client.close()
    return REQUESTS / seconds


def test_ten_thousand_idle():
    files = kit.raise_files(IDLE + 200)
    count = min(IDLE, files - 200)
    with kit.server(options=["--threads", "1"]) as server:
        rate(server)
        quiet = [rate(server) for _ in range(ROUNDS)]
        for port, request, answer in ((server.resp_port, b"PING\r\n", b"+PONG\r\n"),
                                      (server.http_port, b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", None)):
            before = kit.memory_bytes(server)
            idle = []
            for _ in range(count // 2):  # each has been served once: the memory for that must be freed
                connection = kit.connect(port)
                connection.sendall(request)
                idle.append(connection)
            for connection in idle:
                got = connection.recv(4096)
                assert got == answer or (answer is None and got.startswith(b"HTTP/1.1 200")), got
            each = (kit.memory_bytes(server) - before) / len(idle)
            assert each <= BYTES_EACH_MAX, f"{each:.0f} bytes for each idle connection"
            print(f"       {each:.0f} bytes for each of {len(idle)}")
            if port == server.resp_port:
                first = idle
        cpu = kit.cpu_seconds(server)
        time.sleep(0.3)
        assert kit.cpu_seconds(server) - cpu < 0.1, "idle connections cost time"
        crowded = []
        usual = statistics.median(quiet)
        while len(crowded) < ROUNDS * 3 and (not crowded or usual / max(crowded) > SLOWER_MAX):
            crowded.append(rate(server))
        serve.expect(kit.metrics(server)["ration_connections"], len(first) + len(idle) + 1)
        kit.close_all(first + idle)
        slower = usual / max(crowded)
        assert slower <= SLOWER_MAX, f"a busy client is {slower:.2f} times slower beside {count} idle"
        kit.wait_until(lambda: kit.metrics(server)["ration_connections"] == 1, "all are gone")


serve.run()
