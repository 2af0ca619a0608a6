# SPDX-License-Identifier: BSD-2-Clause
"""A recording is complete when it ends: its names stay the same, even if the recorded binaries change."""
import json
import os
import re
import shutil
import subprocess

import pytest

import profiles
import project

pytestmark = [pytest.mark.uprobes, pytest.mark.together("rebuilt")]

# other() is at the address of as_recorded() if added_later() is compiled in before them.
SOURCE = """
#include <time.h>
#include <stdlib.h>
volatile unsigned long sink;
static inline __attribute__((always_inline)) void add(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
#ifdef REBUILT
__attribute__((noinline)) void added_later(void) { add(300000); sink++; }
#endif
__attribute__((noinline)) void as_recorded(void) { add(300000); sink++; }
__attribute__((noinline)) void other(void) { add(100000); sink++; }
int main(int c, char **v) { clock_t e = clock() + atof(v[1]) * CLOCKS_PER_SEC; do { as_recorded(); other();
#ifdef REBUILT
 added_later();
#endif
 } while (clock() < e); return 0; }
"""


def built(program, build_id, *flags):
    return program.text("rebuilt.c", SOURCE, "-O1", "-g", f"-Wl,--build-id={build_id}", project.no_runtime(), *flags)


def recorded(xprof, app, directory, *options):
    done = xprof("record", "-F", "499", *options, "-o", directory, "--", app, "0.5")
    assert done.returncode == 0, done.stderr
    return done.stderr


def found(xprof, directory, *options):
    """Returns {function: row} of the recorded program, and the messages."""
    done = xprof("report", "--json", *options, directory)
    assert done.returncode == 0, done.stderr
    return {row["function"]: row for row in json.loads(done.stdout)["groups"][0]["functions"]}, done.stderr


def check(rows, messages):
    assert rows["as_recorded"]["cum"] > rows["other"]["cum"] > 0, rows.keys()
    assert rows["as_recorded"]["calls"] == rows["other"]["calls"] > 1 and rows["main"]["calls"] == 1
    assert "added_later" not in rows and "not the file" not in messages, messages


def replaced(how, app, new):
    """Replaces the recorded binary."""
    times = app.stat()
    app.unlink()
    if how != "removed":
        shutil.copy(new, app)
    if how == "same size and time":
        size = max(times.st_size, app.stat().st_size)
        os.truncate(app, size)
        os.utime(app, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert (app.stat().st_size, app.stat().st_mtime_ns) == (size, times.st_mtime_ns)


@pytest.fixture(scope="module", params=["sha1", "none"], ids=["id", "no-id"])
def made(request, xprof, program, tmp_path_factory):
    """Makes a recording of an unchanged binary: (directory, app, rebuilt program)."""
    place = tmp_path_factory.mktemp("rebuilt")
    app, new = place / "app", built(program, request.param, "-DREBUILT")
    shutil.copy(built(program, request.param), app)
    os.truncate(app, max(app.stat().st_size, new.stat().st_size))
    messages = recorded(xprof, app, place / "out")
    return place / "out", app, new, messages


@pytest.fixture(params=["rebuilt", "removed", "same size and time"])
def changed(request, made):
    directory, app, new, _ = made
    kept = app.with_name("kept")
    shutil.copy2(app, kept)
    replaced(request.param, app, new)
    yield directory
    os.replace(kept, app)


@pytest.mark.parametrize("without", [None, "perf.data"])
def test_names(xprof, changed, tmp_path, without):
    """Checks names of samples and calls, from perf.data and from the profiles, with inlined calls and lines."""
    directory = tmp_path / "out"
    shutil.copytree(changed, directory, symlinks=True)
    if without:
        (directory / without).unlink()
    check(*found(xprof, directory))
    rows, _ = found(xprof, directory, "--lines")
    assert "/rebuilt.c." in rows["as_recorded"]["file"]
    folded = xprof("export", "--format=folded", "-o", "-", directory).stdout
    assert re.search(r"as_recorded;add_\[i\] \d+$", folded, re.M) and "added_later" not in folded


def test_readers(changed, made, newest_llvm_xray):
    """Checks `go tool pprof` and llvm-xray, with the commands that the summary prints."""
    directory, _, _, messages = made
    account = re.search(r"^    llvm-xray (account .*)$", messages, re.M)[1].split()
    assert "added_later" not in newest_llvm_xray(*account).stdout
    assert "as_recorded" in newest_llvm_xray(*account).stdout
    if profiles.GO:
        (profile,) = directory.glob("app*.prof")
        shown = project.run([profiles.GO, "tool", "pprof", "-top", profile]).stdout
        assert "as_recorded" in shown and "added_later" not in shown, shown


def test_another_machine(xprof, made, tmp_path):
    """Reads the recording at another path, in a root directory without the binary."""
    directory, app, _, _ = made
    shutil.copytree(directory, tmp_path / "moved", symlinks=True)
    root = tmp_path / "root"
    root.mkdir()
    script = (f"set -e; mount --rbind / {root}; mount -t tmpfs none {root}{app.parent}; "
              f"exec chroot {root} {xprof.path} report --json {tmp_path}/moved")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check({row["function"]: row for row in json.loads(done.stdout)["groups"][0]["functions"]}, done.stderr)


def test_without_the_stored_names(xprof, made, tmp_path):
    """A file at the path is used only if it has the recorded build ID."""
    directory, app, _, _ = made
    copy = tmp_path / "out"
    shutil.copytree(directory, copy, symlinks=True)
    for path in copy.glob("sym/app*"):
        path.unlink()
    has_id = "build_id" in next(b for b in json.loads((copy / "manifest.json").read_text())["binaries"] if b["path"] == str(app))
    rows, messages = found(xprof, copy)
    assert ("as_recorded" in rows) == has_id
    assert ("may not be the file that was recorded (without a build id)" in messages) != has_id


def test_names_of_stored_files(xprof, program, tmp_path):
    """
    Without a build ID, the name of a file in sym/ depends on its contents, because pprof and perf may cache the file by
    its name.
    """
    app = shutil.copy(built(program, "none"), tmp_path / "app")
    for which in "first", "second":
        recorded(xprof, app, tmp_path / which)
    assert len({next((tmp_path / which).glob("sym/app.*")).name for which in ("first", "second")}) == 1


def test_difference_of_builds(xprof, program, tmp_path):
    """diff of recordings before and after a rebuild shows only the new functions as new."""
    app = tmp_path / "app"
    for which, flags in (("before", []), ("after", ["-DREBUILT"])):
        shutil.copy(built(program, "sha1", *flags), app)
        recorded(xprof, app, tmp_path / which)
        app.unlink()
    done = xprof("diff", tmp_path / "before", tmp_path / "after")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for name, is_new in (("added_later", True), ("as_recorded", False), ("other", False)):
        changed = re.search(rf"^A .* {name}\nB .*\n(.*)$", text, re.M)
        assert bool(re.search(r"\b(new|gone)\b", changed[1])) == is_new, text
