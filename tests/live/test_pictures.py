# SPDX-License-Identifier: BSD-2-Clause
"""The pictures of README.md: the page of the same recording still shows what their caption says."""
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
CAUSE = "in lookup, which sleeps in refresh_cache while it holds the lock"
PICTURE_MAX, SESSION_MAX = 150_000, 500_000


@pytest.fixture(scope="module")
def pictures():
    """The program that makes them."""
    loader = importlib.machinery.SourceFileLoader("pictures", str(DOCS / "pictures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
    loader.exec_module(module)
    return module


def texts():
    """The lines of the terminal session."""
    return [node.text or "" for node in xml.etree.ElementTree.parse(DOCS / "session.svg").iter("{http://www.w3.org/2000/svg}text")]


def test_files():
    shown = re.findall(r'(?:src|srcset)="(docs/[^"]+)"|\]\((docs/[^)]+)\)', README)
    names = {name or other for name, other in shown}
    assert names == {"docs/recording-light.png", "docs/recording-dark.png", "docs/session.svg"}
    assert README.count(CAPTION) == 1
    for name in names:
        path = project.REPO / name
        assert path.stat().st_size < (SESSION_MAX if path.suffix == ".svg" else PICTURE_MAX)
    assert {path.name for path in DOCS.iterdir()} == {"pictures", *(name.removeprefix("docs/") for name in names)}


def test_session(pictures):
    """A recording, and why some requests were slow."""
    commands = [line for line in texts() if line.startswith("$ ")]
    assert commands == [f"$ sudo xprof {' '.join(pictures.RECORD)}", "$ xprof explain"]
    assert CAUSE in " ".join(line.strip() for line in texts())


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
    done = xprof("explain", cwd=tmp_path)
    assert done.returncode == 0
    assert CAUSE in " ".join(done.stdout.split())
