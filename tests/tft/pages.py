# SPDX-License-Identifier: Apache-2.0
"""usage: pages.py AXE.js SCRATCH PAGE...

Opens each page in headless Chromium, light and wide, dark and narrow: nothing may go to the console, the text may not
be wider than the window, and axe (https://github.com/dequelabs/axe-core) may find nothing that keeps readers with a
screen reader, a keyboard or little contrast out. One Chromium opens all of them, driven by its DevTools protocol.
"""

import json
import os
import select
import subprocess
import sys
import time

CHECK = """(async () => {
const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
const width = root.clientWidth, wide = root.scrollWidth - width;
// The rows of the tables that the script puts away are alike: axe takes a minute for thousands of them.
document.querySelectorAll("main > details tr:nth-of-type(n+4)").forEach(row => row.remove());
const found = await axe.run({resultTypes: ["violations"]});
const wrong = found.violations.map(v => v.id + ": " + v.help + ": " + v.nodes[0].html.slice(0, 200));
return {wrong, rules: found.passes.length, dark, width, wide};
})()"""
SETTINGS = [(False, 1200), (True, 390)]  # dark, width
CONSOLE = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
TIMEOUT = 120  # seconds that a page may take


class Browser:
    """Chromium with one tab. Messages are JSON that ends in a zero byte, on its descriptors 3 and 4."""

    def __init__(self, scratch):
        theirs, self.to = os.pipe()
        self.come, answers = os.pipe()
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--user-data-dir=" + os.path.join(scratch, "profile"), "--remote-debugging-pipe"]  # fmt: skip
        with open(os.path.join(scratch, "chromium"), "wb") as said:
            self.process = subprocess.Popen(["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (theirs, answers), "sh", *command],
                                            pass_fds=(theirs, answers), stderr=said)  # fmt: skip
        os.close(theirs)
        os.close(answers)
        self.received, self.events, self.count, self.session = b"", [], 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        """The result of a command."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data) :]
        answer = self.wait(lambda one: one.get("id") == self.count)
        assert "result" in answer and "exceptionDetails" not in answer["result"], (method, answer)
        return answer["result"]

    def wait(self, wanted):
        """The next message that is wanted; events before it are kept."""
        end = time.monotonic() + TIMEOUT
        while True:
            while b"\0" not in self.received:
                assert select.select([self.come], [], [], max(0, end - time.monotonic()))[0], "Chromium does not answer"
                more = os.read(self.come, 1 << 20)
                assert more, "Chromium has ended"
                self.received += more
            line, self.received = self.received.split(b"\0", 1)
            message = json.loads(line)
            self.events.append(message)
            if wanted(message):
                return message

    def look(self, axe, page, dark, width):
        """What the page says of itself, and what went to the console."""
        self.call("Page.navigate", url="about:blank")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.events = []
        frame = self.call("Page.navigate", url="file://" + os.path.abspath(page))
        assert "errorText" not in frame, (page, frame)
        if not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.wait(lambda one: one.get("method") == "Page.loadEventFired")
        self.call("Runtime.evaluate", expression=axe + ";0")
        said = self.call("Runtime.evaluate", expression=CHECK, awaitPromise=True, returnByValue=True)["result"]["value"]
        return said, [json.dumps(one["params"])[:500] for one in self.events if one.get("method") in CONSOLE]

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(TIMEOUT)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        axe = file.read()
    wrong = 0
    browser = Browser(sys.argv[2])
    try:
        for page in sys.argv[3:]:
            for dark, width in SETTINGS:
                said, console = browser.look(axe, page, dark, width)
                assert said["dark"] == dark and said["width"] == width and said["rules"] > 20, (page, said)
                problems = said["wrong"] + console + (["%d pixels too wide" % said["wide"]] if said["wide"] > 0 else [])
                for problem in problems:
                    print("%s, %s, %d wide: %s" % (os.path.basename(page), "dark" if dark else "light", width, problem))
                wrong += len(problems)
        browser.close()
    finally:
        browser.process.kill()
        browser.process.wait()
    return wrong > 0


sys.exit(main())
