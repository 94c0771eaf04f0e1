# SPDX-License-Identifier: Apache-2.0
"""usage: pages.py AXE.js SCRATCH PAGE...

Opens each page in headless Chromium, light and wide, dark and narrow: nothing may go to the console, the text may not
be wider than the window, and axe (https://github.com/dequelabs/axe-core) may find nothing that keeps readers with a
screen reader, a keyboard or little contrast out.
"""

import html
import json
import os
import re
import subprocess
import sys

CHECK = """<script>%s</script><script>
const dark = matchMedia("(prefers-color-scheme: dark)").matches, root = document.documentElement;
const wide = root.scrollWidth - root.clientWidth;
// The rows of the tables that the script puts away are alike: axe takes a minute for thousands of them.
document.querySelectorAll("main > details tr:nth-of-type(n+6)").forEach(row => row.remove());
axe.run().then(found => {
    const wrong = found.violations.map(v => v.id + ": " + v.help + ": " + v.nodes[0].html.slice(0, 200));
    top.document.body.textContent = JSON.stringify({wrong, rules: found.passes.length, dark, wide});
});
</script></body>"""
SETTINGS = [(False, 1200), (True, 390)]  # dark, width
# Chromium's windows are at least 500 wide: the page is in a frame of the width.
FRAME = '<!doctype html><body><iframe style="width:%dpx;height:900px;border:0" srcdoc="%s"></iframe></body>'


def look(axe, scratch, page, dark, width):
    """What the page says of itself, and the lines of the console."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert text.count("</body>") == 1, page
    path = os.path.join(scratch, "looked-at.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(FRAME % (width, html.escape(text.replace("</body>", CHECK % axe))))
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                           "--user-data-dir=" + os.path.join(scratch, "profile"), "--hide-scrollbars",
                           "--blink-settings=preferredColorScheme=%d" % (not dark), "--window-size=1300,900",
                           "--virtual-time-budget=30000", "--dump-dom", "file://" + path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    body = re.search(r"<body[^>]*>(\{.*\})</body>", done.stdout, re.DOTALL)
    assert body, "%s: nothing comes back: %s %s" % (page, done.stdout[-300:], done.stderr[-300:])
    return json.loads(html.unescape(body.group(1))), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        axe = file.read()
    wrong = 0
    for page in sys.argv[3:]:
        for dark, width in SETTINGS:
            said, console = look(axe, sys.argv[2], page, dark, width)
            assert said["dark"] == dark and said["rules"] > 20, (page, said)
            problems = said["wrong"] + console + (["%d pixels too wide" % said["wide"]] if said["wide"] > 0 else [])
            for problem in problems:
                print("%s, %s, %d wide: %s" % (os.path.basename(page), "dark" if dark else "light", width, problem))
            wrong += len(problems)
    return wrong > 0


sys.exit(main())
