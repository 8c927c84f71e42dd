#!/usr/bin/env python3
"""Many nodes, one limit (R1): 4 servers with 64 connections each, half RESP and half HTTP, check one key in Redis, with
the real clock. Each server with its clients is on a host of its own, and Redis on another one, if hosts.py can make
them; otherwise all are on loopback.

    nodes_test.py RATION [--lie]

In total at most burst + rate * time is admitted, and exactly the burst if no token is refilled meanwhile.
The test prints admitted / contract, calls of Redis per decision, and the time per reply, clients included.
--lie counts one admission twice; the test must notice it.
"""
import multiprocessing
import os
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import hosts
import redis_kit
import serve

BINARY = sys.argv[1]
IS_LYING = "--lie" in sys.argv
NODES, CONNECTIONS = 4, 64
DEADLINE_MS = 20000  # never reached: after a timeout the node decides, which is another test


class Incomplete(Exception):
    pass


class Partial(serve.Resp):
    """Parses a RESP reply, if it is complete."""

    def __init__(self, buffer):
        self.buffer = buffer

    def more(self):
        raise Incomplete


class Connection:
    def __init__(self, port, is_http):
        self.client = serve.Resp(port)
        self.socket = self.client.socket
        self.is_http = is_http
        self.sent = b"GET /v1/check?user=u HTTP/1.1\r\nHost: x\r\n\r\n" if is_http else \
            serve.Resp.encode("RATION.CHECK", "user", "u")
        self.buffer = b""

    def begin(self):
        self.began = time.monotonic()
        self.socket.sendall(self.sent)

    def receive(self):
        """None if the reply is incomplete, else whether the request was admitted."""
        part = self.socket.recv(65536)
        assert part, "the server closed a connection"
        self.buffer += part
        try:
            allowed, degraded = self.read_http() if self.is_http else self.read_resp()
        except Incomplete:
            return None
        assert not degraded, "an answer is degraded"
        self.buffer = b""
        return allowed

    def read_resp(self):
        answer = serve.pairs(Partial(self.buffer).read())
        return answer[b"verdict"] == b"allow", answer[b"degraded"] == 1

    def read_http(self):
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        if not end:
            raise Incomplete
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < size:
            raise Incomplete
        status = int(head.split(b" ")[1])
        assert status in (200, 429), self.buffer
        return status == 200, b"degraded" in body


def run_clients(pipe, ports, barrier, asks, seconds):
    """One node's clients: each connection sends the next request as soon as it has a reply, `asks` times or for some
    seconds. Sends (admitted, decisions, the time of each) to the pipe."""
    connections = [Connection(ports[index % 2], index % 2 == 1) for index in range(CONNECTIONS)]
    watch = select.epoll()
    by_file = {connection.socket.fileno(): connection for connection in connections}
    left = dict.fromkeys(by_file, asks)
    for file in by_file:
        watch.register(file, select.EPOLLIN)
    barrier.wait()
    end = time.monotonic() + seconds
    admitted, took = [0, 0], []
    for connection in connections:
        connection.begin()
    waiting = len(connections)
    while waiting:
        ready = watch.poll(serve.ANSWER_SECONDS)
        assert ready, "there is no reply"
        for file, _ in ready:
            connection = by_file[file]
            allowed = connection.receive()
            if allowed is None:
                continue
            took.append(time.monotonic() - connection.began)
            admitted[connection.is_http] += allowed
            left[file] -= 1
            if left[file] > 0 and time.monotonic() < end:
                connection.begin()
            else:
                waiting -= 1
    pipe.send((admitted, took))


def run_nodes(policy, asks, seconds):
    """(admitted over RESP and HTTP, the time of each decision, the seconds that passed, calls of the script)."""
    context = multiprocessing.get_context("fork")
    servers = []
    with redis_kit.Redis(host=REDIS_HOST) as redis:
        try:
            for host in NODE_HOSTS:
                with host:
                    servers.append(redis_kit.serve_with(BINARY, redis.url, policy,
                                                        ["--threads", "2", "--node-count", str(NODES)], DEADLINE_MS))
            for host, server in zip(NODE_HOSTS, servers):
                with host:
                    redis_kit.wait_well(server, connections=8)
            redis.ask("CONFIG", "RESETSTAT")
            barrier = context.Barrier(NODES + 1)
            pipes, processes = [], []
            for host, server in zip(NODE_HOSTS, servers):
                here, there = context.Pipe()
                pipes.append(here)
                processes.append(context.Process(target=run_clients, daemon=True, args=(
                    there, (server.resp_port, server.http_port), barrier, asks, seconds)))
                with host:
                    processes[-1].start()
            began = time.monotonic()  # before the first request, so that the contract is not underestimated
            barrier.wait()
            answers = []
            for pipe in pipes:
                assert pipe.poll(60), "a node's clients do not finish"
                answers.append(pipe.recv())
            elapsed = time.monotonic() - began
            for process in processes:
                process.join(30)
                serve.expect(process.exitcode, 0, "a node's clients")
            calls = redis.calls("evalsha", "eval")
            check_addresses(redis)
            for server in servers:
                server.check_end()
        finally:
            for server in servers:
                server.kill()
    admitted = [sum(answer[0][index] for answer in answers) for index in range(2)]
    return admitted, sorted(took for answer in answers for took in answer[1]), elapsed, calls


def check_addresses(redis):
    """Every host called Redis."""
    clients = [dict(word.partition("=")[::2] for word in line.split())
               for line in redis.ask("CLIENT", "LIST").decode().splitlines()]
    asked_from = {client["addr"].partition(":")[0] for client in clients if client["cmd"] in ("evalsha", "eval")}
    serve.expect(asked_from, {host.address for host in NODE_HOSTS}, "the hosts that called Redis")


def print_result(name, admitted, contract, took, calls):
    print(f"       {name}: admitted {sum(admitted)} ({admitted[0]} by RESP, {admitted[1]} by HTTP) of {contract:.1f} in "
          f"the contract: {sum(admitted) / contract:.4f}; {calls / len(took):.4f} calls of Redis per decision; "
          f"p50 {took[len(took) // 2] * 1000:.1f} ms, p99 {took[len(took) * 99 // 100] * 1000:.1f} ms "
          f"of {len(took)} decisions")


def test_R1_exactly_the_burst():
    burst, asks = 2000, 16
    admitted, took, _, calls = run_nodes(f"limits: [{{name: l, key: user, rate: 1/day, burst: {burst}}}]\n", asks, 60)
    admitted[0] += IS_LYING
    print_result("nothing refills", admitted, burst, took, calls)
    serve.expect(len(took), NODES * CONNECTIONS * asks, "decisions")
    serve.expect(sum(admitted), burst, "admitted")
    serve.expect(calls, len(took), "calls of the script: one for each decision")
    assert all(admitted), "one protocol was admitted nothing"


def test_R1_burst_and_rate():
    """Far more requests than tokens: all tokens are given, and never one more."""
    burst, rate = 200, 400
    admitted, took, elapsed, calls = run_nodes(f"limits: [{{name: l, key: user, rate: {rate}/s, burst: {burst}}}]\n",
                                           10 ** 9, 2)
    contract = burst + rate * elapsed
    print_result("refilled", admitted, contract, took, calls)
    assert sum(admitted) <= contract, "more than the contract"
    assert sum(admitted) >= .9 * (burst + rate * 2), "hardly anything of the contract"
    serve.expect(calls, len(took), "calls of the script: one for each decision")


def test_R1_leases_of_the_burst():
    """Without refill: never one more than the burst, and at most one lease per node is lost."""
    burst, asks = 2000, 16
    admitted, took, _, calls = run_nodes(f"limits: [{{name: l, key: user, rate: 1/day, burst: {burst}, redis_mode: lease}}]\n",
                                     asks, 60)
    print_result("leases, nothing refills", admitted, burst, took, calls)
    serve.expect(len(took), NODES * CONNECTIONS * asks, "decisions")
    assert sum(admitted) <= burst, "more than the burst"
    assert sum(admitted) >= burst - burst / 4, "more is lost than one lease per node"


def test_R1_leases():
    """Four nodes acquire tokens ahead of need: never one more than the contract, and few calls."""
    burst, rate = 4000, 2000
    admitted, took, elapsed, calls = run_nodes(
        f"limits: [{{name: l, key: user, rate: {rate}/s, burst: {burst}, redis_mode: lease}}]\n", 10 ** 9, 2)
    contract = burst + rate * elapsed
    print_result("leases", admitted, contract, took, calls)
    assert sum(admitted) <= contract, "more than the contract"
    asked_for_more = len(took) > contract
    # not admitted: the rate for the duration of a lease (half a second), and a lease per node
    admitted_min = contract - rate * .5 - NODES * burst / 4 / NODES - rate * .1 if asked_for_more else .9 * len(took)
    assert sum(admitted) >= admitted_min, f"less than {admitted_min:.0f}"
    assert calls <= .05 * len(took), "leases do not save calls"


def test_R1_local_first():
    """The nodes' local buckets first: more than the contract, within the stated bound."""
    burst, rate = 400, 400
    admitted, took, elapsed, calls = run_nodes(
        f"limits: [{{name: l, key: user, rate: {rate}/s, burst: {burst}, redis_mode: local_first}}]\n", 10 ** 9, 2)
    contract = burst + rate * elapsed
    bound = contract + NODES * .75 * burst + rate * elapsed
    print_result("local-first", admitted, contract, took, calls)
    assert sum(admitted) <= bound, f"more than the bound, {bound:.0f}"
    assert sum(admitted) >= .9 * (burst + rate * 2), "hardly anything of the contract"
    assert calls < .2 * len(took), "Redis was called too often"


def test_R2_two_limits():
    """Several limits in one call: the narrower one decides, and a denied request takes nothing from the wider one."""
    policy = ("limits:\n  - {name: wide, rate: 1/day, burst: 1500}\n"
              "  - {name: narrow, key: user, rate: 1/day, burst: 700}\n"
              "  - {name: shadow, key: user, rate: 1/day, burst: 10, shadow: true}\n")
    admitted, took, _, calls = run_nodes(policy, 8, 60)
    print_result("two limits", admitted, 700, took, calls)
    serve.expect((sum(admitted), calls), (700, len(took)), "admitted, and calls")


hosts.begin()
REDIS_HOST, *NODE_HOSTS = hosts.make(1 + NODES)
serve.run(["test_R1_exactly_the_burst"] if IS_LYING else None)
