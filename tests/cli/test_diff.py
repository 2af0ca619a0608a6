# SPDX-License-Identifier: BSD-2-Clause
"""Checks the text and the page of `xprof diff` for profiles with known numbers."""
import json
import re

import pytest

import browser
import hand_made

# Samples of hot() and rest() on each side. In "same" they differ only by noise, in "b" by more.
SAMPLES = {"a": (3000, 7000), "same": (3040, 6960), "b": (3300, 6700)}


@pytest.fixture(scope="module")
def two_parts(program):
    return program("live/programs/two_parts.c", "-O1", "-g")


@pytest.fixture
def diff(xprof, two_parts, tmp_path):
    """
    Runs `xprof diff` in the directory of the profiles. Each profile has different addresses, as if from another build.
    """
    at = hand_made.symbols(two_parts)
    for number, (name, counts) in enumerate(SAMPLES.items()):
        base = 0x555555554000 + number * 0x10000
        records = [(count, [base + at[part], base + at["main"] + 2]) for part, count in zip(("hot", "rest"), counts)]
        text = hand_made.mappings(two_parts, base)
        (tmp_path / f"{name}.prof").write_bytes(hand_made.profile(records, text, period_us=250))

    def run(*args, status=0):
        done = xprof("diff", *args, cwd=tmp_path)
        assert done.returncode == status, done.stderr
        return done.stdout

    return run


def rows(text):
    view = json.loads(text)["views"][0]
    assert view["of"] == "samples"
    return view, {row["function"]: row for row in view["functions"]}


@pytest.mark.parametrize("options", [[], ["--normalize"]])
def test_noise(diff, options):
    view, found = rows(diff("--json", *options, "a.prof", "same.prof"))
    assert view["test"]["functions"] > 1 and {row["verdict"] for row in found.values()} == {"noise"}
    assert re.search(r"^No function changed by more than the noise", diff(*options, "a.prof", "same.prof"), re.M)


def test_a_change_is_found_and_sized(diff):
    """A change is printed in ms per second of CPU time, and in percent."""
    view, found = rows(diff("--json", "a.prof", "b.prof"))
    hot, rest = found["hot"], found["rest"]
    assert (hot["verdict"], rest["verdict"]) == ("grew", "shrank") and hot["p"] < view["test"]["p_limit"]
    assert (hot["self_samples"], rest["self_samples"]) == ([3000, 3300], [7000, 6700])
    assert hot["values"] == pytest.approx([300, 330]) and rest["values"] == pytest.approx([700, 670])
    assert hot["change"] == pytest.approx(30) and 10 < hot["margin"] < 25
    _, shares = rows(diff("--json", "--normalize", "a.prof", "b.prof"))
    assert shares["hot"]["values"] == pytest.approx([30, 33]) and shares["hot"]["verdict"] == "grew"
    changed = re.search(r"^Changed \(2 functions\)\n(.+)\n(.+)\n", diff("a.prof", "b.prof"), re.M)
    assert {line.split()[-2] for line in changed.groups()} == {"hot", "rest"}


def test_folded(diff):
    assert sorted(diff("--folded", "a.prof", "b.prof").splitlines()) == ["main;hot 3000 3300", "main;rest 7000 6700"]


def test_cum(diff):
    view, found = rows(diff("--json", "--sort", "cum", "a.prof", "b.prof"))
    assert view["compared"] == "total" and found["main"]["verdict"] == "noise"
    assert found["main"]["values"] == pytest.approx([1000, 1000]) and found["main"]["self_samples"] == [0, 0]


@pytest.mark.skipif(not browser.PATH, reason="no chromium here")
def test_page(diff, tmp_path):
    """The HTML page has the values of the JSON. Names in it are text, not markup."""
    hostile = "x--><img src=x onerror=alert(1)>.prof"
    (tmp_path / hostile).symlink_to("a.prof")
    diff("--html", "-o", "d.html", hostile, "b.prof")
    page = browser.Browser(tmp_path)(tmp_path / "d.html", mode="table")
    assert "img" not in page.tags[page.tags.index("nav"):]
    _, found = rows(diff("--json", "a.prof", "b.prof"))
    assert {row["name"]: row["self"] for row in page.rows if row["self"]} == {
        name: pytest.approx(found[name]["values"][1]) for name in ("hot", "rest")
    }


def test_only_what_both_have(diff, tmp_path):
    (tmp_path / "empty.folded").write_text("")
    for args in (["a.prof", "missing"], ["a.prof", "empty.folded"], ["--comm", "nobody", "a.prof", "b.prof"]):
        diff(*args, status=1)
    diff("a.prof", "b.prof", "a.prof", status=2)
