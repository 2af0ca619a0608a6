# SPDX-License-Identifier: BSD-2-Clause
"""What `xprof diff` says of two recordings of the same program, and of a program with a known change."""
import collections
import concurrent.futures
import json
import re
import shutil

import pytest

import project

pytestmark = [pytest.mark.uprobes, pytest.mark.together("diff")]

PART = "hot"
SHARE = 0.30
GROWN = 0.33  # by 10 %


@pytest.fixture(scope="module")
def sides(xprof, program, tmp_path_factory):
    """Recordings of a program that spins: twice as it is, and once with 10 % more of a part."""
    directory = tmp_path_factory.mktemp("diff")
    path = program("live/programs/two_parts.c", "-O1", "-g")

    def one(name, share):
        # Another path and other addresses, as of another build.
        (directory / f"build-{name}").mkdir()
        binary = shutil.copy(path, directory / f"build-{name}" / "two_parts")
        options = ["-q", "-F", "4000", "-o", directory / name]
        done = xprof("record", *options, "--", binary, str(100 * share), str(100 * (1 - share)), "2.5")
        assert done.returncode == 0, done.stderr

    # All at once: each has the same share of the kernel's work, whoever else makes the machine work.
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(one, ("a", "a2", "b"), (SHARE, SHARE, GROWN)))
    return directory


@pytest.fixture
def diff(xprof, sides):
    def run(*args, status=0):
        done = xprof("diff", *args, cwd=sides)
        assert done.returncode == status, done.stderr
        return done.stdout

    return run


def own(found):
    """The program's functions: what the kernel does depends on what else the machine has to do."""
    return {name: row for (name, object_name), row in found.items() if object_name == "two_parts"}


def rows(text):
    view = json.loads(text)["views"][0]
    assert view["of"] == "samples"
    return view, {(row["function"], row["object"]): row for row in view["functions"]}


@pytest.mark.parametrize("options", [(), ("--normalize",), ("--wall",)])
def test_the_same_program_has_not_changed(diff, options):
    files = ("a", "a2")
    view, found = rows(diff("--json", *options, *files))
    assert (PART, "two_parts") in found and view["test"]["functions"] > 1
    assert {row["verdict"] for row in own(found).values()} <= {"noise", "with-total"}
    if "--wall" not in options:
        assert {row["verdict"] for row in own(found).values()} == {"noise"}
        if all(row["verdict"] == "noise" for row in found.values()):
            assert re.search(r"^No function changed by more than the noise", diff(*options, *files), re.M)


def test_a_change_is_found_and_sized(diff):
    view, found = rows(diff("--json", "a", "b"))
    hot = found[PART, "two_parts"]
    assert hot["verdict"] == "grew" and hot["p"] < view["test"]["p_limit"]
    assert found["rest", "two_parts"]["verdict"] == "shrank"
    # Of 10000 samples, the margin is 13 ms. One change of 10000 is off by twice of it.
    assert abs(hot["change"] - 1000 * (GROWN - SHARE)) < 2 * hot["margin"]
    assert hot["margin"] < 25
    assert {name for name, row in own(found).items() if row["verdict"] != "noise"} == {PART, "rest"}
    changed = re.search(r"^Changed \(\d+ functions\)\n(.+)\n(.+)\n", diff("a", "b"), re.M)
    assert {line.split()[-2] for line in changed.groups()} == {PART, "rest"}


def test_shares(diff):
    _, shares = rows(diff("--json", "--normalize", "a", "b"))
    _, seconds = rows(diff("--json", "a", "b"))
    assert {key: row["self_samples"] for key, row in shares.items()} == {
        key: row["self_samples"] for key, row in seconds.items()
    }
    for key, row in shares.items():
        assert row["values"] == pytest.approx([value / 10 for value in seconds[key]["values"]])
        assert row["verdict"] == seconds[key]["verdict"]
    assert sum(row["values"][1] for row in shares.values()) == pytest.approx(100)


def test_folded(xprof, diff, sides):
    """The numbers of B are those of its own folded stacks; the sums of both are the same."""
    stacks = [line.rsplit(" ", 2) for line in diff("--folded", "a", "b").splitlines()]
    exported = xprof("export", "--format=folded", "--by", "none", "-o", "-", sides / "b").stdout
    expected = collections.Counter()
    for stack, count in (line.rsplit(" ", 1) for line in exported.splitlines()):
        # Code without a name is one frame for each file.
        stack = re.sub(r"(^|;)([^;]+)\+0x[0-9a-f]+", r"\1[\2]", stack)
        expected[re.sub(r"\.(isra|constprop|part|cold)(\.\d+)?", "", stack)] += int(count)
    assert {stack: int(count) for stack, _, count in stacks if int(count)} == dict(expected)
    totals = [sum(int(stack[side]) for stack in stacks) for side in (1, 2)]
    assert abs(totals[0] - totals[1]) <= len(stacks)


def test_calls(diff):
    """Each of hot() and rest() is called once a turn, of 100 ms of CPU time."""
    view = json.loads(diff("--json", "a", "b"))["views"][1]
    found = {row["function"]: row for row in view["functions"]}
    assert view["of"] == "calls" and view["sides"][0]["calls"] > 49
    assert found[PART]["calls"] == found["rest"]["calls"] == [25, 25]
    for times in ("p50_ns", "p90_ns", "p99_ns", "max_ns"):
        assert all(value > 1e6 for value in found[PART][times])
    assert found[PART]["mean_ns"] == pytest.approx([ns / calls for ns, calls in zip(found[PART]["total_ns"], (25, 25))])
    assert re.search(r"^A +\S+ +\S+ .*  hot\nB .*  two_parts\n", diff("a", "b"), re.M)


BROWSER = shutil.which("chromium")


@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_page(diff, sides, tmp_path):
    """The page in a browser has the values that the JSON has, and its names are text only."""
    hostile = "x--><img src=x onerror=alert(1)>"
    (sides / hostile).symlink_to("a")
    diff("--html", "-o", tmp_path / "d.html", hostile, "b")
    done = project.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}",
         "--virtual-time-budget=5000", "--dump-dom", f"file://{tmp_path}/d.html#mode=table"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert 'data-ready="true"' in done.stdout and "<img" not in done.stdout
    assert float(re.search(r'data-a="([\d.]+)"', done.stdout)[1]) == pytest.approx(1000)
    _, found = rows(diff("--json", "a", "b"))
    page = {
        name: (float(before), float(after))
        for before, after, name in re.findall(
            r'<tr data-change="[^"]*" data-self-a="([^"]+)" data-self="([^"]+)".*?<td class="text name"[^>]*><i[^>]*></i>(\w+)<',
            done.stdout,
        )
    }
    for name in (PART, "rest"):
        assert page[name] == pytest.approx(tuple(found[name, "two_parts"]["values"]))


def test_cum(diff):
    view, found = rows(diff("--json", "--sort", "cum", "a", "b"))
    main = found["main", "two_parts"]
    assert view["compared"] == "total" and main["verdict"] == "noise"
    assert main["values"][0] > 900 and main["total_samples"][0] > main["self_samples"][0]


def test_only_what_both_have(diff, sides):
    shutil.copy(next((sides / "a").glob("*.prof")), sides / "alone.prof")
    (sides / "empty.folded").write_text("")
    assert "%" in diff("a", "alone.prof")  # without a manifest it has no length: shares, which --wall cannot be
    for args in (["a", "missing"], ["a", "empty.folded"], ["a", "a", "a"], ["--comm", "nobody", "a", "b"]):
        diff(*args, status=2 if len(args) == 3 and "--comm" not in args else 1)
