# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of all tests, their requirements on the machine, and the line of totals."""
import os
import signal
import subprocess
import sys

import pytest

import project

# Compiled tests, which each worker reads, are kept, but not beside the sources.
sys.pycache_prefix = str(project.OUTPUT / "pycache")
sys.dont_write_bytecode = False

pytest_plugins = ["cpu_time", "time_limit", "cmocka", "alone"]


# Marks root and uprobes: tests that cannot run here are skipped, with the reason.


def pytest_runtest_setup(item):
    uprobes = item.get_closest_marker("uprobes")
    if (uprobes or item.get_closest_marker("root")) and os.geteuid() != 0:
        pytest.skip("needs root")
    if uprobes:
        reason = project.why_no_uprobes()
        if reason:
            pytest.skip(reason)


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):
        # nohup, or a shell without job control, ignores them for all that it starts. Workers get them from this process.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
    if os.geteuid() == 0:
        project.mount_kernel_filesystems()


# The last line, for CI.


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not reporter or config.option.collectonly:
        return
    count = {name: len(reporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    print(f"{count['passed']} passed, {count['failed'] + count['error']} failed, {count['skipped']} skipped", flush=True)


# Fixtures


@pytest.fixture(scope="session")
def repo():
    """The project's directory."""
    return project.REPO


@pytest.fixture(scope="session")
def xprof():
    """Calls the built xprof: xprof("list", path) -> CompletedProcess with text; xprof.path is the program."""
    if not project.XPROF.exists():
        pytest.fail("xprof is not built: run make")
    return project.Xprof(project.XPROF)


@pytest.fixture(scope="session")
def program():
    """Builds test programs: program("source.c", "-O1", ...) -> path; program.text(name, source, ...) from a text."""
    return project.Programs(project.OUTPUT / "tests" / "programs")


@pytest.fixture(params=project.LLVM_VERSIONS or [None], ids=lambda v: f"llvm-{v}")
def llvm_xray(request):
    """Each installed llvm-xray in turn: llvm_xray("account", path) -> CompletedProcess; llvm_xray.version is 14, 19."""
    if request.param is None:
        pytest.skip("no llvm-xray here")
    return project.LlvmXray(request.param)


@pytest.fixture(scope="session")
def newest_llvm_xray():
    """The newest of them, where one is enough."""
    if not project.LLVM_VERSIONS:
        pytest.skip("no llvm-xray here")
    return project.LlvmXray(project.LLVM_VERSIONS[-1])


@pytest.fixture
def start():
    """Starts processes that end with the test: start([path, ...]) -> Popen with text pipes."""
    started = []

    def start_one(argv, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([str(a) for a in argv], text=True, **options)
        started.append(process)
        return process

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
