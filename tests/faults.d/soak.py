"""Clients of one server for a long time: its memory, descriptors, threads and children must not grow."""

import collections
import concurrent.futures
import contextlib
import random
import signal
import socket
import ssl
import statistics
import threading
import time

from disk import log_in
from issuer import Issuer, certificate
from network import request
from processes import PROMPT, Server, attempt, children, descriptors, expect, folder, mcpio, memory, report, threads, until
from proxy import Proxy, reset


class Load:
    """Clients of one server that requires tokens, behind TLS: they call, stream, cancel, disconnect and are killed."""

    def __init__(self, proxy, options, token, tls):
        self.proxy, self.options, self.token, self.tls = proxy, options, token, tls
        self.counts, self.failures, self.stopped = collections.Counter(), [], threading.Event()
        self.lock = threading.Lock()

    def run(self, number):
        chance = random.Random(number)
        actions = [self.call, self.stream, self.cancel, self.time_out, self.kill, self.disconnect, self.intrude]
        while not self.stopped.is_set():
            action = chance.choice(actions)
            problem = attempt(lambda action=action: action(chance))
            with self.lock:
                self.counts[action.__name__] += 1
                self.failures += [f"{action.__name__}: {problem}"] if problem else []

    def client(self, chance, *command):
        era = chance.choice(("modern", "legacy"))
        return mcpio("--era", era, *self.options, *command, self.proxy.url)

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.proxy.port), timeout=PROMPT)
        return self.tls.wrap_socket(plain, server_hostname="127.0.0.1")

    def call(self, chance):
        client = self.client(chance, "call", "echo", "text=soak").end()
        expect(client.out == "soak\n", client)

    def stream(self, chance):
        client = self.client(chance, "call", "count", "to=30", "delay_ms=10").end()
        expect(client.out == "Counted to 30.\n", client)

    def cancel(self, chance):
        client = self.client(chance, "call", "slow", "seconds=600")
        time.sleep(chance.uniform(0, 1))
        client.popen.send_signal(signal.SIGINT)
        client.end()
        # Before the client handles the signal, it ends by it.
        expect(client.code in (130, -signal.SIGINT), client)

    def time_out(self, chance):
        client = self.client(chance, "--timeout", 1, "--json", "call", "slow", "seconds=600").end()
        expect(client.kind() == "timeout", client)

    def kill(self, chance):
        client = self.client(chance, *chance.choice([("call", "slow", "seconds=600"), ("watch", "demo://clock")]))
        time.sleep(chance.uniform(0, 2))
        client.kill()
        client.close("stdout")

    def disconnect(self, chance):
        whole = request("count", to=1000, delay_ms=5).replace(b"\r\n", f"\r\nAuthorization: Bearer {self.token}\r\n".encode(), 1)
        with self.connect() as connection:
            connection.sendall(whole[: chance.choice([10, len(whole) // 2, len(whole)])])
            if chance.random() < 0.5:
                time.sleep(0.2)
            reset(connection)

    def intrude(self, _):
        with self.connect() as connection:
            connection.sendall(request("echo", text="secret"))
            answer = connection.recv(65536)
            expect(b" 401 " in answer[:20], answer)


# What is sampled, its unit, and how much it may grow: so much, or this part of its mean if that is more.
SAMPLED = [
    ("memory", memory, 1e6, "MB", 3, 0.1),
    ("descriptors", descriptors, 1, "", 8, 0.25),
    ("threads", threads, 1, "", 2, 0),
    ("children", lambda process: len(children(process)), 1, "", 0, 0),
]


def flat(name, symbol, most, part, times, values):
    """Checks the slope of the regression line times the duration: the noise of the load counts little there."""
    grown = statistics.linear_regression(times, values).slope * (times[-1] - times[0])
    allowed = max(most, part * statistics.mean(values))
    shown = f"first {values[0]:.1f}, least {min(values):.1f}, most {max(values):.1f}, last {values[-1]:.1f}"
    grows = f"growth {grown:.1f} of at most {allowed:.1f} {symbol}"
    print(f"soak: {name}: {shown}, {grows}", flush=True)
    report(f"soak: growth of the server's {name} is within its bound", grows if grown > allowed else None)


def soak(seconds):
    """Samples the server in the second half, when its allocator and caches have filled.

    In an hour this holds for its sessions as well: those of killed clients of the legacy era end after 30 minutes.
    """
    place = folder()
    certificate_file, key = certificate(place)
    trusting, contexts = ssl.create_default_context(cafile=certificate_file), []
    # Of a client's connections some speak HTTP/2, and some HTTP/1.1.
    for protocols in (["h2", "http/1.1"], ["http/1.1"]):
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        contexts[-1].load_cert_chain(certificate_file, key)
        contexts[-1].set_alpn_protocols(protocols)
    issuer = Issuer(place, lifetime=20)
    # The proxy listens before the server, whose URL for clients is the proxy's.
    proxy = Proxy(0, tls=contexts)
    with Server("--issuer", issuer.url, "--resource", proxy.url) as server, contextlib.closing(proxy):
        proxy.upstream = server.port
        login = log_in(place / "tokens", proxy.url, "--cacert", certificate_file)
        expect(login.code == 0, "no login:", login)
        options = ("--cacert", certificate_file, "--tokens", place / "tokens")
        load = Load(proxy, options, issuer.tokens(proxy.url, lifetime=seconds + 3600)["access_token"], trusting)
        load.call(random.Random(0))
        idle = descriptors(server.pid)
        began, rows = time.monotonic(), []
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for number in range(4):
                pool.submit(load.run, number)
            while (now := time.monotonic() - began) < seconds and server.is_running():
                if now > seconds / 2:
                    rows.append([now, *(take(server.pid) / unit for _, take, unit, *_ in SAMPLED)])
                time.sleep(max(0.5, seconds / 1000))
            load.stopped.set()
        print(f"soak: {load.counts.total()} clients in {seconds:.0f} s, {len(rows)} samples: {dict(load.counts)}", flush=True)
        print(f"soak: protocols of connections {proxy.protocols}, grants of tokens {issuer.grants}", flush=True)
        expect(server.is_running(), "the server has ended:", server.err)
        times, *columns = zip(*rows)
        for (name, _, _, symbol, most, part), values in zip(SAMPLED, columns):
            flat(name, symbol, most, part, times, values)
        open_ones = attempt(lambda: until(lambda: descriptors(server.pid) <= idle + 1, f"at most {idle + 1} descriptors", 60))
        report("soak: the server closes the connections of clients that have ended", open_ones)
        wrong = load.failures and f"{len(load.failures)} do not: {'; '.join(load.failures[:3])}"
        report("soak: each client ends as it should", wrong)
        # A token is renewed before its lifetime of 20 s ends.
        report("soak: clients renew their tokens", seconds > 30 and "refresh_token" not in issuer.grants and "none was renewed")
