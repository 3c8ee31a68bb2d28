"""An authorization server on loopback whose page grants everything: signed access tokens, renewed by refresh tokens."""

import base64
import contextlib
import http.server
import json
import pathlib
import re
import secrets
import subprocess
import threading
import time
import urllib.parse


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Serves on a free port; its RSA key is in `folder`."""

    def __init__(self, folder, lifetime):
        self.key, self.lifetime = pathlib.Path(folder) / "issuer.pem", lifetime
        # How many tokens were issued, by grant.
        self.grants = {}
        openssl("genrsa", "-out", self.key, "2048")
        modulus = bytes.fromhex(openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip().split("=")[1])
        self.keys = {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "n": base64url(modulus), "e": "AQAB"}]}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Answers", (Answers,), {"issuer": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def metadata(self):
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def tokens(self, resource, lifetime=None):
        """The answer of the token endpoint."""
        lifetime = lifetime or self.lifetime
        claims = {"iss": self.url, "sub": "alice", "aud": resource, "client_id": "client", "exp": time.time() + lifetime}
        parts = [{"alg": "RS256", "typ": "at+jwt"}, claims]
        signed = ".".join(base64url(json.dumps(part).encode()) for part in parts)
        signature = openssl("dgst", "-sha256", "-sign", self.key, input=signed.encode())
        access = f"{signed}.{base64url(signature)}"
        # The refresh token carries the resource. It is a new one each time.
        refresh = f"{base64url(resource.encode())}.{secrets.token_hex(16)}"
        return {"access_token": access, "token_type": "Bearer", "expires_in": lifetime, "refresh_token": refresh}


def openssl(*arguments, input=None):
    return subprocess.run(["openssl", *map(str, arguments)], input=input, check=True, capture_output=True).stdout


def certificate(folder):
    """Makes a self-signed certificate for 127.0.0.1, and returns the paths of it and its key."""
    key, path = folder / "tls.key", folder / "tls.pem"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", path,
            "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE")  # fmt: skip
    return path, key


class Answers(http.server.BaseHTTPRequestHandler):
    issuer = None

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/authorize":
            query = dict(urllib.parse.parse_qsl(url.query))
            code = base64url(query["resource"].encode())
            answer = {"code": code, "iss": self.issuer.url, "state": query["state"]}
            self.send_response(302)
            self.send_header("location", f"{query['redirect_uri']}?{urllib.parse.urlencode(answer)}")
            self.end_headers()
        elif url.path == "/.well-known/oauth-authorization-server":
            self.answer(self.issuer.metadata())
        elif url.path == "/keys":
            self.answer(self.issuer.keys)
        else:
            self.send_error(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/register":
            self.answer(json.loads(body) | {"client_id": "client"}, 201)
            return
        form = dict(urllib.parse.parse_qsl(body))
        self.issuer.grants[form["grant_type"]] = self.issuer.grants.get(form["grant_type"], 0) + 1
        encoded = re.match(r"[^.]*", form.get("code") or form["refresh_token"])[0]
        resource = base64.urlsafe_b64decode(encoded + "==").decode()
        self.answer(self.issuer.tokens(resource))

    def answer(self, document, status=200):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        # Clients are killed while they wait.
        with contextlib.suppress(OSError):
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_):
        pass
