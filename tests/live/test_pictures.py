# SPDX-License-Identifier: BSD-2-Clause
"""Checks the pictures of README.md: the page of the same recording still shows what the captions say."""
import importlib.machinery
import importlib.util
import re
import urllib.parse
import xml.etree.ElementTree

import pytest

import browser
import project

README = (project.REPO / "README.md").read_text()
DOCS = project.REPO / "docs"
CAPTION = "lookup waits for a lock, save_orders for the disk, and report for a CPU"
TIMELINE = "both workers wait for the lock at the same time"
CAUSE = "in lookup, which sleeps in refresh_cache while it holds cache_lock"
PICTURE_MAX, SESSION_MAX = 150_000, 500_000


@pytest.fixture(scope="module")
def pictures():
    """Returns the program that makes the pictures."""
    loader = importlib.machinery.SourceFileLoader("pictures", str(DOCS / "pictures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
    loader.exec_module(module)
    return module


def texts():
    """Returns the lines of the terminal session."""
    return [node.text or "" for node in xml.etree.ElementTree.parse(DOCS / "session.svg").iter("{http://www.w3.org/2000/svg}text")]


def test_files():
    shown = re.findall(r'(?:src|srcset)="(docs/[^"]+)"|\]\((docs/[^)]+)\)', README)
    names = {name or other for name, other in shown}
    assert names == {"docs/recording-light.png", "docs/recording-dark.png", "docs/session.svg", "docs/timeline.png"}
    assert README.count(CAPTION) == README.count(TIMELINE) == 1
    for name in names:
        path = project.REPO / name
        assert path.stat().st_size < (SESSION_MAX if path.suffix == ".svg" else PICTURE_MAX)
    assert {path.name for path in DOCS.iterdir()} == {"pictures", *(name.removeprefix("docs/") for name in names)}


def test_session(pictures):
    """The session shows a recording, and why some requests were slow."""
    commands = [line for line in texts() if line.startswith("$ ")]
    assert commands == [f"$ sudo xprof {' '.join(pictures.RECORD)}", "$ xprof explain"]
    assert CAUSE in " ".join(line.strip() for line in texts())


def assert_both_wait(xprof, pictures, directory):
    """
    Checks, in a copy of the page whose policy allows this script, that in some slot both workers only wait for a lock.
    """
    path = directory / "timeline.html"
    assert xprof("export", "--format", "html", "-o", path, cwd=directory).returncode == 0
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text())
    path.write_text(text.replace("</body>", """<script>
const locks = threadLanes.all.filter((lane) => lane.name.startsWith("worker")).map((lane) => lane.states.get("lock"));
document.body.dataset.both = locks.length === 2 && locks[0].some((ns, i) => Math.min(ns, locks[1][i]) > 0.9 * threadLanes.ns);
</script></body>"""))
    page = browser.Browser(directory)(path, **dict(urllib.parse.parse_qsl(pictures.TIMELINE)))
    assert page.body["both"] == "true"


@pytest.mark.uprobes
@pytest.mark.time_limit(240)
def test_page_and_explanation(xprof, program, start, pictures, tmp_path):
    if not browser.PATH:
        pytest.skip("no chromium here")
    server = start([program("../examples/server.c", "-O2", "-g", project.no_runtime())])
    assert int(server.stdout.readline()) == server.pid
    args = [str(server.pid) if arg == "server" else arg for arg in pictures.RECORD]
    assert xprof(*args, cwd=tmp_path).returncode == 0
    assert xprof("export", *pictures.PAGE, "-o", "page.html", cwd=tmp_path).returncode == 0
    page = browser.Browser(tmp_path)(tmp_path / "page.html", **dict(urllib.parse.parse_qsl(pictures.VIEW)), mode="table")
    waits = {row["name"]: row["total"] for row in page.rows}
    assert all(waits[name] > 0 for name in ("handle_request", "lookup", "save_orders", "report"))
    assert all(state in page.texts["legend"] for state in ("lock", "disk", "runnable"))
    assert_both_wait(xprof, pictures, tmp_path)
    done = xprof("explain", cwd=tmp_path)
    assert done.returncode == 0
    assert CAUSE in " ".join(done.stdout.split())
