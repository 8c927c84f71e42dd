"""Real programs around a server: proxies with the shipped configurations, and a backend service.

The files in examples/ are used unchanged, except for their addresses:

    127.0.0.1:8080   the proxy listens here
    127.0.0.1:8429   ration
    127.0.0.1:3000   the backend service
"""
import http.client
import http.server
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

START_SECONDS = 30
STOP_SECONDS = 30
STARTS_MAX = 3  # another program may take a port that was free
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EXAMPLES = os.path.join(ROOT, "examples")
CHECK_SECRET = "CHECK-SECRET"  # as in the files
ADMIN_SECRET = "ADMIN-SECRET"


def example(path):
    with open(os.path.join(EXAMPLES, path), encoding="utf-8") as file:
        return file.read()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_until(is_so, what, seconds=START_SECONDS):
    """Polls until is_so() is true; the error says what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        answer = is_so()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(port, method="GET", path="/", headers=None, body=None, source="127.0.0.2"):
    """(status, headers, body) of one request from an address of this host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS,
                                            source_address=(source, 0))
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class Service:
    """The service behind the proxy: answers 200, or the status in ?status=, and records the requests."""

    def __init__(self):
        self.seen = []
        self.headers = []
        seen, headers = self.seen, self.headers

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                seen.append((self.command, self.path, body))
                headers.extend(self.headers.items())
                status = int(self.path.partition("status=")[2] or 200)
                self.send_response(status)
                self.send_header("Content-Length", "7")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(b"service")

            do_GET = do_POST = do_PUT = do_HEAD = answer

            def log_message(self, *arguments):
                pass

            def handle(self):
                try:
                    super().handle()
                except ConnectionError:
                    pass  # the proxy has exited

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def take_seen(self):
        seen = list(self.seen)
        self.seen.clear()
        return seen

    def take_headers(self):
        """(name, value) of every header of the requests since the last call."""
        headers = list(self.headers)
        self.headers.clear()
        return headers

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Program:
    """A program that listens on a port; prepare() writes its files and returns its command."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ration-e2e-")
        self.process = None
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    def prepare(self):
        raise NotImplementedError

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self):
        for _ in range(STARTS_MAX):
            self.port = free_port()
            command = self.prepare()
            with open(os.path.join(self.folder, "output"), "ab") as output:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                    env=dict(os.environ, HOME=self.folder, XDG_DATA_HOME=self.folder,
                             XDG_CONFIG_HOME=self.folder))
            wait_until(lambda: self.process.poll() is not None or is_listening(self.port),
                       f"{command[0]} to listen")
            if self.process.poll() is None:
                return
        raise AssertionError(f"{' '.join(command)} does not run:\n{self.output()}")

    def output(self):
        with open(os.path.join(self.folder, "output"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if value is not None and os.path.exists(self.folder):
            print(self.output())
        self.kill()


class Proxy(Program):
    """files are in examples/proxies; the first is the main configuration."""
    files = ()
    options = ()  # of ration, besides --trusted-proxies
    reports_allowed = True  # RateLimit on answers of the service
    down_status = None  # the status that a client gets if ration is unavailable
    hang_status = None  # and if ration does not answer; None: the proxy waits
    undecided_status = 503  # if ration reports that it cannot decide
    connections_max = 4  # to ration, for requests one after the other
    client_header = "X-Forwarded-For"
    replaces_header = False  # the proxy replaces the client's own address headers

    def __init__(self, ration_port, service_port):
        self.ration_port = ration_port
        self.service_port = service_port
        super().__init__()

    def fill(self, text):
        for shipped, port in ((8080, self.port), (8429, self.ration_port), (3000, self.service_port)):
            if f"127.0.0.1:{shipped}" in text:
                text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{port}")
        return text

    def prepare(self):
        for name in self.files:
            self.write(os.path.basename(name), self.fill(example("proxies/" + name)))
        return self.command()


class Nginx(Proxy):
    files = ("nginx.conf",)
    down_status = hang_status = 200

    def command(self):
        included = os.path.join(self.folder, self.files[0])
        main = self.write("main.conf", "".join((
            "daemon off; master_process off; worker_processes 1;\n",
            f"pid {self.folder}/pid; error_log stderr warn;\n",
            "events { worker_connections 256; }\n",
            "http {\naccess_log off;\n",
            *(f"{kind}_temp_path {self.folder}/{kind};\n"
              for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
            f"include {included};\n}}\n")))
        return [shutil.which("nginx") or "/usr/sbin/nginx", "-p", self.folder, "-c", main]


class Nginx403(Nginx):
    files = ("nginx-403.conf",)
    options = ("--client-ip-header", "x-real-ip")
    down_status = hang_status = undecided_status = 500
    client_header = "X-Real-IP"
    replaces_header = True


class Caddy(Proxy):
    files = ("Caddyfile",)
    down_status = 502
    hang_status = 504
    connections_max = 20  # Caddy does not read the body of a response that it replaces
    replaces_header = True

    def fill(self, text):
        text = text.replace("http://:8080", f"http://:{self.port}")
        return "{\n\tadmin off\n}\n" + super().fill(text)

    def command(self):
        return ["caddy", "run", "--adapter", "caddyfile", "--config",
                os.path.join(self.folder, self.files[0])]


class CaddyShort(Caddy):
    files = ("Caddyfile.short",)
    reports_allowed = False
    hang_status = None


class Haproxy(Proxy):
    files = ("haproxy/haproxy.cfg", "haproxy/ration.lua")
    down_status = hang_status = 200

    def fill(self, text):
        return super().fill(text).replace("abns@ration-check", f"abns@ration-check-{self.port}")

    def command(self):
        return [shutil.which("haproxy") or "/usr/sbin/haproxy", "-db", "-f", "haproxy.cfg"]


class HaproxyClosed(Haproxy):
    down_status = hang_status = 503

    def fill(self, text):
        return super().fill(text).replace("lua.ration open", "lua.ration closed")


PROXIES = {kind.__name__.lower(): kind
           for kind in (Nginx, Nginx403, Caddy, CaddyShort, Haproxy, HaproxyClosed)}
