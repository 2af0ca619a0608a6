# SPDX-License-Identifier: BSD-2-Clause
"""Starts the virtual machines of the table `machines`, and selects for each the tests whose steps it runs."""
import concurrent.futures
import os
import pathlib
import shutil

import pytest

import project
import recording
import virtual_machines

HERE = pathlib.Path(__file__).parent
# Names of steps in tests/kernels/guest.
ESSENTIAL = """doctor command arguments running running_probed single patched crossing_memory events
    shares_fp waits restore""".split()
KILLS = [f"kills_{mode}" for mode in ("probe", "patch", "memory", "follow", "all", "off_cpu")]
STEP_SETS = {
    "all": """doctor loads command shell arguments probed_arguments running running_probed single single_probed patched
        crossing_probe crossing_patch crossing_memory throws throws_probed events children exec stacks shares_fp
        shares_none all waits jit_map jit_list
        dry_run budget flight_crash flight_asked survives restore""".split(),
    "essential": ESSENTIAL,
    "kills": KILLS,
}
AT_ONCE = 2

# Set by `make test-kernels`: a directory with the kernels and a file "releases" with lines "VERSION RELEASE".
KERNELS = os.environ.get("KERNELS")
# The selected machines; empty: all.
WANTED = os.environ.get("MACHINES", "").split()


def table():
    """Returns {machine: steps}."""
    lines = [line.split() for line in (HERE / "machines").read_text().splitlines() if not line.startswith("#")]
    return {name: [step for steps in sets for step in STEP_SETS.get(steps, [steps])] for name, *sets in lines}


MACHINES = {name: steps for name, steps in table().items() if not WANTED or name in WANTED}


def why_not():
    """Returns the reason why the machines cannot run, before programs and a disk are built for them."""
    if not KERNELS:
        return "takes minutes: `make test-kernels` runs it"
    return virtual_machines.why_not()


def is_wanted(item):
    name = item.callspec.params.get("machine") if hasattr(item, "callspec") else None
    return name is None or all(
        step.format(**item.callspec.params) in MACHINES[name] for mark in item.iter_markers("steps") for step in mark.args
    )


def pytest_collection_modifyitems(config, items):
    """
    Sets the time limit, because the first test of each machine waits for the machine. Deselects tests whose steps the
    machine does not run.
    """
    ours = [item for item in items if item.path.parent == HERE]
    reason = why_not()
    for item in ours:
        item.add_marker(pytest.mark.time_limit(2 * virtual_machines.LIMIT_S))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    unwanted = [item for item in ours if not is_wanted(item)]
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]


@pytest.fixture(scope="session", params=MACHINES if KERNELS else [None], ids=lambda name: name or "none")
def machine(request):
    """Returns the name of a machine."""
    return request.param


@pytest.fixture(scope="session")
def programs(program):
    # Two programs have XRay's runtime, which counts their calls on the machine that runs the tests. clang 14 crashes on
    # events when it optimizes.
    no_events = "-Wl,--defsym=__xray_CustomEvent=0,--defsym=__xray_TypedEvent=0"
    forks = """
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) void step(int n) { __asm__ volatile("" : : "r"(n)); }
    int main(void) {
        for (int i = 0; i < 5; i++) step(i);
        if (!fork()) { for (int i = 0; i < 10; i++) step(i); _exit(0); }
        wait(NULL);
        return 0;
    }
    """
    plain = ("-O2", project.no_runtime())
    return {
        "calls": program("live/programs/calls.c", "-O2"),
        "throws": program("live/programs/throws.cpp", "-O2"),
        "events": program("live/programs/events.c", "-O0", "-DTYPED_EVENTS", project.no_runtime(), no_events),
        "crossing": program("live/programs/crossing.c", "-O0", project.no_runtime(), no_events),
        "forks": program.text("forks", forks, *plain),
        **{name: program(f"live/programs/{name}.c", *plain) for name in ("victim", "load", "rounds")},
        "stacks": program("live/programs/stacks.cpp", "-O2", "-g", "-fomit-frame-pointer", instrument=False),
        "shares": program(
            "live/programs/shares.c", "-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id=sha1", instrument=False
        ),
        "waits": program("live/programs/waits.c", "-O1", "-pthread", "-D_GNU_SOURCE", instrument=False),
        "jit": program("live/programs/jit.c", "-O1", instrument=False),
        "verified": program("kernels/verified.c", "-O1", "-lbpf", instrument=False),
        "kills": program("kernels/kills.c", "-O1", "-D_GNU_SOURCE", "-lbpf", instrument=False),
    }


@pytest.fixture(scope="session")
def disk(xprof, programs, tmp_path_factory):
    """Returns the initial RAM disk."""
    archive = virtual_machines.Archive()
    archive.add("init", HERE / "guest")
    archive.add("bin/busybox", virtual_machines.BUSYBOX)
    archive.add_program("bin/xprof", xprof.path)
    archive.add_program("bin/bpftool", shutil.which(project.bpftool()))
    archive.add_program("bin/tar-gnu", shutil.which("tar"))
    for name, path in programs.items():
        archive.add_program(f"bin/{name}", path)
    objects = tmp_path_factory.mktemp("bpf")
    for version in range(14, 20):
        if shutil.which(f"clang-{version}"):
            made = objects / str(version) / "xprof.bpf.o"
            done = project.run(["make", "-C", project.REPO, f"O={made.parent}", f"CLANG=clang-{version}", made])
            assert done.returncode == 0, done.stderr
            archive.add(f"bpf/clang-{version}.bpf.o", made)
    path = tmp_path_factory.mktemp("disk") / "initrd.gz"
    path.write_bytes(archive.compressed())
    return path


@pytest.fixture(scope="session")
def results(disk, tmp_path_factory):
    """Returns {name of a machine: a future Guest}. The machines run in the order of the table."""
    releases = dict(line.split() for line in (project.REPO / KERNELS / "releases").read_text().splitlines())
    made = {}
    for name, steps in MACHINES.items():
        version, *parameters = name.split(":")
        kernel = project.REPO / KERNELS / f"vmlinuz-{releases[version]}"
        made[name] = virtual_machines.Machine(kernel, disk, tmp_path_factory.mktemp("machine"), parameters, steps)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(machine.run) for name, machine in made.items()}
        pool.shutdown(wait=False, cancel_futures=True)
        for machine in made.values():
            machine.end()


@pytest.fixture(scope="session")
def left(machine, results):
    """Returns the results of the machine, or fails if it failed."""
    return results[machine].result()


@pytest.fixture
def guest(left, machine):
    if left.failure:
        pytest.fail(f"no result: see test_boots[{machine}]", pytrace=False)
    return left


@pytest.fixture(scope="session")
def truth(programs, tmp_path_factory):
    """Returns the counts of XRay's runtime: truth("calls") -> {(function, kind): count}."""
    known = {}

    def of(name):
        if name not in known:
            records = recording.runtime_records(programs[name], tmp_path_factory.mktemp("truth"))
            known[name] = recording.calls(records)
        return known[name]

    return of
