#!/usr/bin/env python3
"""64 connections, half RESP and half HTTP, check one key at the same time on a server with two threads: exactly the
burst is admitted, never one more or less (R1, R3, R9).

    many_test.py RATION

Each connection is a thread, and the threads are spread over processes, so that Python does not serialise the requests.
All begin at the same time.
"""
import http.client
import multiprocessing
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY = sys.argv[1]
PROCESSES = 4
CONNECTIONS = 16  # of each process: 64 in all
ROUND = 40        # requests of each connection
DAY_NS = 86400 * 10 ** 9


class Crowd:
    """Processes with connections that stay open from round to round."""

    def __init__(self, server, request):
        context = multiprocessing.get_context("fork")
        self.pipes = []
        self.processes = []
        self.barrier = context.Barrier(PROCESSES)
        for number in range(PROCESSES):
            here, there = context.Pipe()
            process = context.Process(target=self.work, args=(there, number, server.resp_port,
                                                              server.http_port, request), daemon=True)
            process.start()
            self.pipes.append(here)
            self.processes.append(process)

    def work(self, pipe, number, resp_port, http_port, request):
        random.seed(number)
        connections = [resp_user(resp_port, request) if index % 2 == 0 else http_user(http_port, request)
                       for index in range(CONNECTIONS)]
        while pipe.recv():
            admitted = [None] * CONNECTIONS
            engine = threading.Barrier(CONNECTIONS)

            def ask(index):
                engine.wait()
                admitted[index] = connections[index](ROUND)

            threads = [threading.Thread(target=ask, args=(index,)) for index in range(CONNECTIONS)]
            self.barrier.wait()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            pipe.send(admitted)

    def round(self):
        """The number admitted over RESP, and over HTTP."""
        for pipe in self.pipes:
            pipe.send(True)
        answers = [answer for pipe in self.pipes for answer in pipe.recv()]
        assert None not in answers, "a connection failed"
        return sum(answers[0::2]), sum(answers[1::2])

    def end(self):
        for pipe, process in zip(self.pipes, self.processes):
            pipe.send(False)
            process.join(30)
            serve.expect(process.exitcode, 0, "a process of clients")


def resp_user(port, request):
    client = serve.Resp(port, version=random.choice((2, 3)))

    def ask(count):
        commands = [request.resp()] * count
        size = random.choice((1, 5, count))  # alone, in pipelines, or all at once
        answers = [answer for at in range(0, count, size) for answer in client.pipeline(commands[at:at + size])]
        return sum(map(request.resp_admits, answers))

    return ask


def http_user(port, request):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(body):
        connection.request("POST", "/v1/check", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        serve.expect(answer.status, 200, text)
        return serve.json.loads(text)

    def ask(count):
        if random.random() < .5:
            return sum(post(request.http())["allowed"] for _ in range(count))
        batch = serve.json.dumps({"checks": [serve.json.loads(request.http())] * count})
        return sum(result["allowed"] for result in post(batch)["results"])

    return ask


class ByPolicy:
    @staticmethod
    def resp():
        return ("RATION.CHECK", "user", "u", "path", "/x")

    @staticmethod
    def resp_admits(answer):
        return serve.pairs(answer)[b"verdict"] == b"allow"

    @staticmethod
    def http():
        return '{"attributes": {"user": "u", "path": "/x"}}'


class ByKey:
    """Inline limits: CL.THROTTLE, and the same limit in JSON, for the same key."""
    burst = 777

    def resp(self):
        return ("CL.THROTTLE", "one", self.burst - 1, 1, 86400)

    @staticmethod
    def resp_admits(answer):
        return answer[0] == 0

    def http(self):
        return '{"key": "one", "limit": "1/day burst %d"}' % self.burst


def crowd(policy, request, rounds, options=()):
    """rounds: (nanoseconds by which the clock advances before the round, the number that the round must admit)."""
    asked = PROCESSES * CONNECTIONS * ROUND
    with serve.Server(BINARY, policy=policy, options=["--threads", "2", "--max-inline-fill", "0", *options]) as server:
        people = Crowd(server, request)
        control = server.resp()
        seen = [0, 0]
        for advance_ns, wanted in rounds:
            assert wanted < asked, "the burst must be smaller than the number of requests"
            if advance_ns:
                serve.expect(control.ask("RATION.CLOCK", "ADVANCE", advance_ns), "OK")
            by_resp, by_http = people.round()
            serve.expect(by_resp + by_http, wanted, f"admitted ({by_resp} by RESP, {by_http} by HTTP)")
            seen[0] += by_resp
            seen[1] += by_http
        people.end()
        assert all(seen), f"one protocol was admitted nothing: {seen}"
        return server


def test_R1_one_limit():
    """With the real clock, and a limit so slow that no token is refilled meanwhile."""
    crowd("limits: [{name: slow, key: user, rate: 1/day burst 1000}]\n", ByPolicy(), [(0, 1000), (0, 0)])


def test_R1_inline_limits():
    crowd(None, ByKey(), [(0, ByKey.burst), (0, 0)])


def test_R2_two_limits():
    """The narrower limit decides; a denied request takes nothing from the wider one."""
    policy = ("limits:\n"
              "  - {name: wide, rate: 1/day burst 1200}\n"
              "  - {name: narrow, key: user, rate: 1/day burst 500}\n")
    asked = PROCESSES * CONNECTIONS * ROUND
    with serve.Server(BINARY, policy=policy, options=["--threads", "2"]) as server:
        people = Crowd(server, ByPolicy())
        serve.expect(sum(people.round()), 500, f"admitted of {asked}")
        people.end()
        left = serve.pairs(server.resp().ask("RATION.PEEK", "COST", 0, "user", "another"))
        serve.expect((left[b"limit"], left[b"remaining"]), (b"narrow", 500))
        answer = server.http("POST", "/v1/peek", {"attributes": {"user": "u"}, "cost": 0})[2]
        serve.expect([(limit["limit"], limit["remaining"]) for limit in answer["limits"]],
                     [("wide", 700), ("narrow", 0)])


def test_R1_rounds_of_a_manual_clock():
    """2000 a day: after half a day exactly 1000 are refilled; a day later no more than the burst."""
    rounds = [(0, 1500), (0, 0), (DAY_NS // 2, 1000), (DAY_NS // 2000 - 1, 0), (1, 1), (3 * DAY_NS, 1500), (0, 0)]
    crowd("limits: [{name: fast, key: user, rate: 2000/day burst 1500}]\n", ByPolicy(), rounds,
          options=["--manual-clock"])


def test_R1_windows():
    """The states of windows and logs have several cells, which change all or nothing."""
    for kind in "fixed_window", "sliding_window", "sliding_log":
        tokens = 100 if kind == "sliding_log" else 900
        rounds = [(0, tokens), (0, 0), (2 * DAY_NS, tokens)]
        crowd(f"limits: [{{name: window, key: user, rate: {tokens}/day {kind}}}]\n", ByPolicy(), rounds,
              options=["--manual-clock"])


serve.run()
