"""Headless Chromium, Debian's, and checks of what its pages do."""

import base64
import json
import os
import subprocess
import time


class Browser:
    """Chromium, driven through pipes."""

    def __init__(self, folder):
        (theirs, self.out), (self.input, answers) = os.pipe(), os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}/profile",
            "--window-size=1400,860",
            "about:blank",
        ]

        def place_pipes():
            # Copies first: either could stand where the other belongs.
            first, second = os.dup(theirs), os.dup(answers)
            os.dup2(first, 3)
            os.dup2(second, 4)

        # Debian's script complains about the size of the memory on some machines.
        self.process = subprocess.Popen(
            ["chromium", *flags],
            preexec_fn=place_pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(answers)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            more = os.read(self.input, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            message = self.read()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def run(self, expression):
        """The value of an expression in the page."""
        done = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:500])
        return done["result"].get("value")

    def wait(self, expression, seconds=20):
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            if time.monotonic() > end:
                raise RuntimeError(f"this did not become true: {expression}; {self.complaints()}")
            time.sleep(0.02)
        return value

    def open(self, url):
        self.events.clear()
        self.send("Page.navigate", url=url)

    def press(self, key):
        text = key if len(key) == 1 else None
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, **({"text": text} if text and kind == "keyDown" else {})
            )

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """What the browser logged, threw, or wanted to load besides the page."""
        self.run("1")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Log.entryAdded":
                found.append(params["entry"]["text"])
            elif event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(json.dumps(params)[:300])
            elif event["method"] == "Network.requestWillBeSent" and params["type"] != "Document":
                found.append(params["request"]["url"][:100])
        return found

    def close(self):
        self.process.terminate()
        self.process.wait()


class Checks:
    passed = failed = 0

    def check(self, name, holds, found=""):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        print(f"ok   {name}" if holds else f"FAIL {name}: {str(found)[:400]}", flush=True)

    def equal(self, name, found, expected):
        self.check(name, found == expected, f"{found!r} is not {expected!r}")
