#!/usr/bin/env python3
"""One protocol sent to the port of another: the server refuses it at once and executes nothing from it.

    wrong_protocol_test.py RATION
"""
import ssl

import attack_kit as kit
import serve

POLICY = "limits: [{name: a, key: user, rate: 1/s, burst: 10}]"
PROXY_1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
PROXY_2 = (b"\r\n\r\n\x00\r\nQUIT\n" + b"\x21\x11\x00\x0c" + bytes([192, 0, 2, 1, 192, 0, 2, 2]) +
           b"\x03\xe8\x07\xd0")
COMMAND = b"RATION.CHECK user crossed\r\n"


def client_hello():
    context = ssl.create_default_context()
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(into, out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def left(server):
    return server.http("POST", "/v1/peek", {"attributes": {"user": "crossed"}})[2]["remaining"]


def test_http_to_the_resp_port():
    """The server closes silently, like Redis; it executes no command in the body, whatever the method."""
    with kit.server(POLICY, ["--manual-clock"]) as server:
        for method in (b"POST", b"PUT", b"OPTIONS", b"GET", b"HEAD", b"PATCH", b"DELETE", b"post"):
            for between in (b"", b"Accept: */*\r\n", b"content-type: text/plain\r\n"):
                sent = (method + b" / HTTP/1.1\r\n" + (b"" if method in (b"POST", b"post") else between) +
                        b"Host: 127.0.0.1:6429\r\nContent-Length: 100\r\n\r\n" + COMMAND * 3)
                reply = server.raw(server.resp_port, sent)
                assert b"verdict" not in reply, reply
        serve.expect(left(server), 10, "tokens left")


def test_post_without_a_host_is_refused():
    """A request from a browser's form begins with POST: the server reads nothing after that word."""
    with kit.server(POLICY, ["--manual-clock"]) as server:
        serve.expect(server.raw(server.resp_port, b"POST / HTTP/1.1\r\n" + COMMAND), b"")
        serve.expect(server.raw(server.resp_port, b"PING\r\nPOST / HTTP/1.1\r\n" + COMMAND) in
                     (b"+PONG\r\n", b""), True)
        serve.expect(left(server), 10, "tokens left")


def test_resp_to_the_http_port():
    with kit.server(POLICY, ["--manual-clock"]) as server:
        for sent in (b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", COMMAND, b"*3\r\n$12\r\nRATION.CHECK\r\n",
                     b"$", b"*", b"HELLO 3\r\n", b"AUTH x\r\n"):
            answers = kit.ask_http(server.http_port, sent + b"GET /v1/check?user=crossed HTTP/1.1\r\n"
                                   b"Host: h\r\n\r\n")
            serve.expect([(answer[0], answer[1]["connection"]) for answer in answers],
                         [(400, "close")], sent)
        serve.expect(left(server), 10, "tokens left")


def test_tls_to_both():
    hello = client_hello()
    assert hello[:2] == b"\x16\x03", hello[:10]
    with kit.server(options=["--header-timeout", "300ms"]) as server:
        answers = kit.ask_http(server.http_port, hello)
        serve.expect([answer[0] for answer in answers], [400])
        reply = server.raw(server.resp_port, hello)
        assert reply.startswith(b"-ERR") or reply == b"", reply
        for version in (b"\x80\x2e\x01\x03\x01", b"\x16\x03\x01\x02\x00\n", b"\x15\x03\x03\x00\x02\x02\n"):
            serve.expect([answer[0] for answer in kit.ask_http(server.http_port, version)], [400])
            reply = server.raw(server.resp_port, version, is_ended=True)
            assert reply.startswith(b"-ERR") or reply == b"", reply


def test_the_proxy_protocol_to_both():
    """The server does not support it: a client cannot set its address that way."""
    with kit.server(POLICY, ["--manual-clock"]) as server:
        get = b"GET /v1/check?user=crossed HTTP/1.1\r\nHost: h\r\n\r\n"
        for header in (PROXY_1, PROXY_2):
            answers = kit.ask_http(server.http_port, header + get)
            assert [answer[0] for answer in answers] in ([400], [501]), answers
            serve.expect(answers[0][1]["connection"], "close")
        serve.expect(left(server), 10, "tokens left")
        reply = server.raw(server.resp_port, PROXY_1 + b"PING\r\n", is_ended=True)
        assert reply.startswith(b"-ERR unknown command"), reply
        reply = server.raw(server.resp_port, PROXY_2 + b"PING\r\n", is_ended=True)
        assert b"192.0.2" not in reply, reply


def test_http_2_with_prior_knowledge():
    with kit.server() as server:
        answers = kit.ask_http(server.http_port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00")
        serve.expect([answer[0] for answer in answers], [505])
        answers = kit.ask_http(server.http_port, b"GET /healthz HTTP/1.1\r\nHost: h\r\n"
                               b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
                               b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
        serve.expect([answer[0] for answer in answers], [200])


serve.run()
