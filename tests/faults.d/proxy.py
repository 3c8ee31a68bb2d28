"""A proxy on loopback that breaks the exchange of a tool call at a chosen byte, slows it down, or terminates TLS."""

import random
import re
import select
import socket
import struct
import threading
import time

# Bytes of every request for a tool call: a header of 2026-07-28, or the body's method of older revisions.
CALL = b"tools/call"


class Fault:
    """What happens to each tool call, on one `side`, once the bytes on that side match `after`.

    The actions: `reset` (RST to both), `end` (FIN to the receiver of that side), `stall` (nothing passes any more on that
    side), or bytes, which replace everything that follows.
    """

    def __init__(self, side, after, action):
        self.side, self.after, self.action = side, re.compile(after, re.DOTALL), action


class Proxy:
    """Accepts connections on a free port, and forwards each to `port`; over TLS with any of the contexts `tls`."""

    def __init__(self, port, fault=None, pause=None, tls=None):
        self.upstream, self.fault, self.tls = port, fault, tls
        # Seconds before each single byte of an exchange, as (request, response).
        self.pause = pause or (None, None)
        # How often the fault has happened: a check in which it never happened proves nothing.
        self.happened = 0
        # How many connections chose which protocol in the TLS handshake.
        self.protocols = {}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/mcp"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        # shutdown wakes the thread that accepts.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        """One thread forwards both directions: a socket in another thread's `recv` would not be reset by `close`."""
        sockets = [client]
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                client.settimeout(30)
                sockets[0] = client = random.choice(self.tls).wrap_socket(client, server_side=True)
                chosen = client.selected_alpn_protocol()
                self.protocols[chosen] = self.protocols.get(chosen, 0) + 1
            server = socket.create_connection(("127.0.0.1", self.upstream))
            sockets.append(server)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.forward(client, server)
        except OSError:
            # A reset by one side is passed on to the other.
            for each in sockets:
                reset(each)
        finally:
            for each in sockets:
                each.close()

    def forward(self, client, server):
        seen = {client: b"", server: b""}
        is_call, waiting = False, {client, server}
        while waiting:
            decrypted = [each for each in waiting if self.tls and each is client and client.pending()]
            ready = decrypted or select.select(waiting, [], [])[0]
            for source in ready:
                side, target = ("request", server) if source is client else ("response", client)
                data = source.recv(65536)
                if not data:
                    waiting.discard(source)
                    end(target)
                    # A closed TLS connection has no half that stays open.
                    if self.tls:
                        return
                    continue
                if side == "request":
                    seen[source] = (seen[source] + data)[-65536 - len(CALL) :]
                    is_call = is_call or CALL in seen[source]
                elif is_call:
                    seen[source] += data
                found = None
                fault = self.fault
                if is_call and fault and fault.side == side:
                    found = fault.after.search(seen[source])
                if not found:
                    self.send(target, data, side, is_call)
                    continue
                self.happened += 1
                target.sendall(data[: max(0, len(data) - (len(seen[source]) - found.end()))])
                if fault.action == "reset":
                    # What was sent before is read before the reset, which would discard it.
                    time.sleep(0.1)
                    raise ConnectionResetError
                waiting.discard(source)
                if isinstance(fault.action, bytes):
                    target.sendall(fault.action)
                if fault.action != "stall":
                    end(target)

    def send(self, target, data, side, is_call):
        pause = self.pause[side == "response"]
        if pause is None or not is_call:
            target.sendall(data)
            return
        for number in range(len(data)):
            time.sleep(pause)
            target.sendall(data[number : number + 1])
            self.happened += 1


def end(target):
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def reset(target):
    """Closes a connection with RST instead of FIN."""
    try:
        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        target.close()
    except OSError:
        pass
