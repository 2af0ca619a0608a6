# SPDX-License-Identifier: BSD-2-Clause
"""Shows pages of xprof in a headless browser."""
import html.parser
import os
import shutil
import subprocess
import urllib.parse

PATH = shutil.which("chromium")


class Page(html.parser.HTMLParser):
    """The document that a browser made from a page."""

    def __init__(self, text):
        super().__init__()
        self.body, self.rows, self.tags, self.texts, self.into = {}, [], [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        if tag == "body":
            self.body = {key[5:]: value for key, value in attrs.items() if key.startswith("data-")}
        elif tag == "tr" and "data-self" in attrs:
            self.rows.append({key: float(attrs[f"data-{key}"]) for key in ("self", "total", "calls", "waits") if f"data-{key}" in attrs})
            self.rows[-1]["name"] = ""
        if tag not in ("i", "option") and (tag != "span" or "id" in attrs):
            self.into = "name" if "name" in attrs.get("class", "").split() and self.rows else attrs.get("id")

    def handle_endtag(self, tag):
        if tag not in ("i", "span"):
            self.into = None

    def handle_data(self, data):
        if self.into == "name":
            self.rows[-1]["name"] += data
        elif self.into:
            self.texts[self.into] = self.texts.get(self.into, "") + data


class Browser:
    def __init__(self, home):
        self.home = home

    def __call__(self, file, **fragment):
        """Returns the page after its script has run. fragment: the part of the address after #."""
        url = f"file://{urllib.parse.quote(str(file))}#{urllib.parse.urlencode(fragment)}"
        done = subprocess.run(
            [PATH, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={self.home}",
             "--virtual-time-budget=5000", "--dump-dom", url],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, env={**os.environ, "HOME": str(self.home)},
        )
        page = Page(done.stdout.decode())
        assert page.body.get("ready") == "true", done.stderr.decode()[-2000:]
        return page
