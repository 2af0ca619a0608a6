# SPDX-License-Identifier: BSD-2-Clause
"""
Checks the page of `xprof export --format html` in a browser: its numbers are those of `xprof report`, names are only
text, and the page fetches nothing.
"""
import base64
import http.server
import json
import os
import re
import subprocess
import threading

import pytest

import browser
import hand_made
import project
from exported import PRICE, SOURCE, folded

pytestmark = [pytest.mark.uprobes, pytest.mark.together("exports"), pytest.mark.skipif(not browser.PATH, reason="no chromium here")]

# New names of functions, which the symbol table has. There is no debug information.
HOSTILE = {
    "_Z14random_numbersl": '</script><img src=x onerror="document.title=1"><!--<script>\u202e',
    "_ZL6pricedl": "\"'\\\n\u2028</style>&lt;",
}
GENERATOR, TSC = project.OUTPUT / "tests" / "format" / "perfdata_gen", 10**12
PROGRAM = "<b>\u202e\"'"


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    return browser.Browser(tmp_path_factory.mktemp("browser"))


def sums(page, *keys):
    found = {}
    for row in page.rows:
        values = found.setdefault(row["name"], [0] * len(keys))
        for i, key in enumerate(keys):
            values[i] += row.get(key, 0)
    return found


def test_samples_equal_those_of_the_report(made, browse, tmp_path):
    path = tmp_path / "page.html"
    made.export("--format=html", "-o", path)
    assert path.stat().st_size < 1 << 20
    page = browse(path, mode="table", scope="merged")
    assert page.body["view"] == "samples" and int(page.body["samples"]) == made.samples
    summary = page.texts["summary"]
    assert os.uname().release in summary and "0 lost" in summary and page.texts["command"].startswith(str(made.xprof.path))
    assert {name: int(self) for name, (self, _) in sums(page, "self", "total").items() if self} == {
        name: row[0] for name, row in made.rows.items() if row[0]
    }
    for name, samples in made.callers().items():
        assert sums(page, "total")[name][0] == samples


def test_calls_equal_those_of_the_report(made, browse, tmp_path):
    path = tmp_path / "page.html"
    made.export("--format=html", "-o", path)
    page = browse(path, view="calls", mode="table")
    assert page.body["view"] == "calls" and int(page.body["calls"]) == made.calls
    assert {name: int(calls) for name, (calls,) in sums(page, "calls").items() if calls} == {
        name: row[2] for name, row in made.rows.items() if row[2]
    }
    stacks = folded(made.export("--calls", "--format=folded", "-o", "-").stdout)
    assert int(page.body["ns"]) == sum(stacks.values())
    # With --calls, the page has only calls.
    made.export("--format=html", "--calls", "-o", path)
    assert '"kind":"samples"' not in path.read_text()


def first_view(page):
    """Returns the first view of a page, and the numbers of its tree."""
    view = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1])["views"][0]
    numbers, value, shift = [], 0, 0
    for byte in base64.b64decode(view["tree"]):
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            numbers.append(value)
            value = shift = 0
    assert len(numbers) == 4 * view["nodes"] - 2
    return view, numbers


def test_rare_stacks(xprof, browse, tmp_path):
    """The page of 50 000 stacks is bounded, and reports what it leaves out. Its sums are exact."""
    profile, page = tmp_path / "app.prof", tmp_path / "page.html"
    records = [(1 + (i % 100 == 0), [0x1000 + i % 4000, 0x2000 + i // 10, 0x8000 + i // 500]) for i in range(50000)]
    profile.write_bytes(hand_made.profile(records, "00001000-00010000 r-xp 00000000 00:00 0 /gone/app\n"))
    done = xprof("export", "--format=html", "--by=process", "-o", page, profile)
    assert done.returncode == 0, done.stderr
    view, numbers = first_view(page)
    assert view["nodes"] <= 20000 and view["rare"] > 25000 and "whole" not in view and page.stat().st_size < 1 << 20
    shown = browse(page, mode="table", scope="merged")
    assert int(shown.body["samples"]) == sum(numbers[0:1] + numbers[4::4]) == 50500
    assert f"{view['rare']:,} rare frames of samples are in \u201c(rare stacks)\u201d" in shown.texts["summary"]
    assert re.search(r"rare stacks \d\d\.\d %", shown.texts["legend"])
    assert "(rare stacks)" in sums(shown, "self")


def test_threads_are_merged_in_detail(xprof, browse, tmp_path):
    """
    100 threads with the same 300 stacks: the tree of all threads has only the most frequent ones, but that in which
    they are merged has all. All sums are exact.
    """
    directory, page, stacks, threads = tmp_path / "recording", tmp_path / "page.html", 300, 100
    directory.mkdir()
    lines = [("comm", TSC + 1, 7, 7 + thread, f"thread-{thread}") for thread in range(threads)]
    lines += [("map", TSC + 2, 7, 7, "10000", "10000", "0", "-", "/gone/app")]
    lines += [("sample", TSC + 1000 * (i + 1), 7, 7 + i % threads, 0, 0, f"{0x10000 + i // threads:x}", f"{0x18000 + i // threads // 10:x}")
              for i in range(stacks * threads)]
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    made = project.run([GENERATOR, directory / "perf.data", 10**9, 10**9, TSC, TSC, 0, "waits"], stdin=None, input=text)
    assert made.returncode == 0, made.stderr
    (directory / "app.7.prof").write_bytes(hand_made.profile([], ""))
    (directory / "manifest.json").write_text(json.dumps({"clock": {"start_tsc": TSC, "hz": 10**9}, "duration_s": 1, "samples": {
        "written": stacks * threads, "period_ns": 10**6, "profiles": [{"pid": 7, "image": 1, "comm": "app", "file": "app.7.prof"}]}}))
    done = xprof("export", "--format=html", "--by=thread", "-o", page, directory)
    assert done.returncode == 0, done.stderr
    view, _ = first_view(page)
    assert view["rare"] and view["nodes"] <= 10000 and view["whole"]["rare"] == 0
    for fragment, has_rare in (({}, False), ({"scope": "merged"}, False), ({"scope": "threads"}, True)):
        shown = browse(page, mode="table", **fragment)
        assert int(shown.body["samples"]) == stacks * threads == sum(self for (self,) in sums(shown, "self").values())
        assert ("(rare stacks)" in sums(shown, "self")) == has_rare
    assert f"{view['rare']:,} rare frames of samples of single threads are in" in shown.texts["summary"]
    shown = browse(page, mode="table", scope="merged", **{"from": "0", "to": "0.01"})
    assert 0 < int(shown.body["samples"]) < stacks * threads


def path_to(page, name):
    """Returns the codes of the frames from the root to the first frame of this name."""
    view, numbers = first_view(page)
    nodes = [(what - 1, up) for what, up in zip(numbers[2::4], numbers[3::4])]
    at = next(i for i, (code, _) in enumerate(nodes, 1) if view["names"][code >> 1] == name)
    codes = []
    while at:
        code, up = nodes[at - 1]
        codes.insert(0, code)
        at -= up
    return codes


def test_search_and_link_to_a_frame(made, browse, tmp_path):
    path = tmp_path / "page.html"
    made.export("--format=html", "--by", "none", "-o", path)
    (view, *_) = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.S)[1])["views"]
    lines = {view["lines"][i] for i, name in enumerate(view["names"]) if PRICE in name}
    assert lines == {1 + next(i for i, line in enumerate(SOURCE.split("\n")) if " price(" in line)}
    frames = path_to(path, "main")
    page = browse(path, find=PRICE.upper(), path=".".join(map(str, frames)))
    stacks = folded(made.export("--format=folded", "-o", "-", "--by", "none").stdout)
    matched = sum(value for stack, value in stacks.items() if any(PRICE in frame for frame in stack))
    assert int(page.body["matched"]) == matched > 0
    assert page.texts["what"] == "main"
    assert f"{made.rows['main'][1]:,} samples" in page.texts["numbers"]
    assert page.texts["share"].startswith(f"{100 * matched / made.samples:.1f} %")


def test_keys_and_clicks(made, browse, tmp_path):
    """Tests keys and clicks in a copy of the page whose policy allows this script."""
    path = tmp_path / "page.html"
    made.export("--format=html", "-o", path)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text())
    path.write_text(text.replace("</body>", """<script>
const seen = {}, put = (name) => seen[name] = [location.hash, $("what").textContent];
const press = (key) => $("canvas").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
for (const [name, keys] of Object.entries({ above: ["ArrowUp"], zoomed: ["ArrowUp", "Enter"], whole: ["Escape"], icicle: ["i"],
	down: ["ArrowDown"], reversed: ["r"], table: ["t"] })) {
	keys.forEach(press);
	put(name);
}
press("r"); /* not in a table */
document.querySelector("tr[data-self]").click();
put("row");
const theme = document.documentElement.dataset.theme;
press("d");
seen.theme = theme !== document.documentElement.dataset.theme;
$("search").value = "priced";
$("search").dispatchEvent(new Event("input"));
go({ mode: "icicle", find: "", path: [], reversed: false, scope: "merged" });
const place = $("canvas").getBoundingClientRect();
$("canvas").dispatchEvent(new MouseEvent("click", { clientX: place.left + 3, clientY: place.top + 30 }));
put("click");
/* Each thread, and the leaves. */
seen.threads = {};
const process = [...$("scope").options].at(-1).value;
go({ scope: process });
for (const { value } of [...$("threads").options].slice(2)) {
	go({ threads: value });
	seen.threads[scope.label] = Number(document.body.dataset.samples);
}
go({ scope: "merged", reversed: true });
seen.leaves = root.kids.map((kid) => [nameOf(kid), kid.total[0], kid.kids.reduce((sum, one) => sum + one.total[0], kid.self[0])]);
document.body.dataset.seen = JSON.stringify(seen);
</script></body>"""))
    seen = json.loads(browse(path).body["seen"])
    process = seen["above"][1]
    assert seen["above"][0] == "" and process.startswith("the orders (")
    assert re.fullmatch(r"#path=-1\.\d+", seen["zoomed"][0])
    assert seen["zoomed"][1] in ("_start", "__clone3", "clone3", "entry_SYSCALL_64_after_hwframe") or seen["zoomed"][1].startswith("libc.so")
    assert seen["whole"] == ["", "all"] and seen["icicle"] == ["#mode=icicle", "all"]
    assert seen["down"] == ["#mode=icicle", process]
    assert seen["reversed"][0] == "#mode=icicle&reversed=true" and seen["table"][0] == "#mode=table&reversed=true"
    assert re.fullmatch(r"#mode=function&reversed=true&function=\d+", seen["row"][0]) and seen["theme"]
    assert re.fullmatch(r"#mode=icicle&scope=merged&path=\d+", seen["click"][0]) and seen["click"][1] != "all"
    threads = {}
    for (_, thread, *_), value in folded(made.export("--format=folded", "-o", "-", "--by", "thread").stdout).items():
        threads[thread] = threads.get(thread, 0) + value
    assert seen["threads"] == threads and len(threads) == 2
    flat = {}
    for name, total, of_callers in seen["leaves"]:
        assert total == of_callers
        flat[name] = flat.get(name, 0) + total
    assert flat == {name: row[0] for name, row in made.rows.items() if row[0]}


def put_view(path, names, tree, script="", lengthNs=0, why=None, slices=None, **members):
    """Puts a view with these functions and nodes into a page, and a script that may run there."""
    view = {
        "kind": "samples", "by": "none", "period": 1000, "dropped": 0, "names": names,
        "kinds": [0] * len(names), "in": [0] * len(names), "files": [""], "sources": [0] * len(names), "objects": ["deep"], "groups": [],
        "nodes": (len(tree) + 2) // 4, "tree": base64.b64encode(tree).decode(), **members,
    }
    data = json.dumps({"views": [view], "lengthNs": lengthNs, "fromNs": members.get("slotFromNs", 0), **({"why": why} if why else {}), **({"slices": slices} if slices else {})})
    text = re.sub(r'(id="data">).*?(</script>)', lambda m: m[1] + data + m[2], path.read_text(), flags=re.S)
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    path.write_text(text.replace("</body>", f"<script>{script}</script></body>"))


@pytest.fixture(scope="module")
def page(made, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    made.export("--format=html", "-o", path)
    return path


# main calls a and b; a calls itself and c; b calls c. (function, parent, samples)
NAMES = ["main", "a", "b", "c"]
CALLS = [(0, 0, 1), (1, 1, 2), (1, 2, 4), (3, 3, 8), (2, 1, 16), (3, 5, 32)]
# The samples of each path of frames from the root, and those of its last frame alone, for each fragment of the address.
SHOWN = """
const flat = (shown, frame, above) => {
	const name = above + nameOf(frame);
	shown[name] = [frame.total[0], frame.self[0]];
	for (const kid of frame.kids)
		flat(shown, kid, name + "/");
	return shown;
};
document.body.dataset.shown = JSON.stringify(FRAGMENTS.map((fragment) => {
	state = stateOf(fragment);
	show();
	return [flat({}, root, ""), state.mode === "function" ? flat({}, callers.zoomed, "") : {}, $("idle").textContent, document.body.dataset.ns];
}));
"""


def script_for(*fragments):
    return f"const FRAGMENTS = {json.dumps(fragments)};{SHOWN}"


MS = 1000000


def packed(number):
    """Encodes a number in groups of 7 bits, the lowest first."""
    groups = bytearray((number & 127,))
    while number := number >> 7:
        groups[-1] |= 128
        groups.append(number & 127)
    return groups


def nodes_of(calls):
    tree = bytearray((0, 0))
    for number, (function, parent, samples) in enumerate(calls, 1):
        tree += bytes((1 + 2 * function, number - parent, samples, 0))
    return tree


def test_functions_and_what_is_hidden(page, browse, tmp_path):
    """
    Shows one function with its callers and callees: a recursive call counts once. A pattern that matches no function
    hides none.
    """
    path = tmp_path / "page.html"
    path.write_text(page.read_text())
    put_view(path, NAMES, nodes_of(CALLS), script_for("mode=function&function=1", "mode=function&function=3", "", "merge=2", "drop=3",
                                                      "collapsed=true&drop=2", "merge=4.-1.x&drop=99&function=9&mode=function"))
    (of_a, _), (_, of_c), *graphs = [
        [{name.removeprefix("all/"): tuple(values) for name, values in graph.items()} for graph in shown[:2]]
        for shown in json.loads(browse(path).body["shown"])
    ]
    assert of_a == {"a": (14, 2), "a/a": (12, 4), "a/a/c": (8, 8)}
    assert {name: total for name, (total, _) in of_c.items()} == {
        "c": 40, "c/b": 32, "c/b/main": 32, "c/a": 8, "c/a/a": 8, "c/a/a/main": 8,
    }
    whole, merged, dropped, collapsed, same = (graph for graph, _ in graphs)
    assert whole == same == {"all": (63, 0), "main": (63, 1), "main/a": (14, 2), "main/a/a": (12, 4), "main/a/a/c": (8, 8),
                             "main/b": (48, 16), "main/b/c": (32, 32)}
    assert merged == {"all": (63, 0), "main": (63, 17), "main/c": (32, 32), **{name: whole[name] for name in whole if name.startswith("main/a")}}
    assert dropped == {"all": (23, 0), "main": (23, 1), "main/a": (6, 2), "main/a/a": (4, 4), "main/b": (16, 16)}
    assert collapsed == {"all": (15, 0), "main": (15, 1), "main/a": (14, 6), "main/a/c": (8, 8)}


def test_idle_threads(page, browse, tmp_path):
    """
    A thread that slept for 99 % of the recording can be hidden as idle; one that waited for a lock cannot. Wakers are
    shown on demand.
    """
    path = tmp_path / "page.html"
    path.write_text(page.read_text())
    tree = bytearray((0, 0))
    for what, up, ns in ((0, 1, 0), (0, 1, 0), (1, 1, 100), (0, 3, 0), (1, 1, 100), (0, 5, 0), (1, 1, 0), (5, 1, 60)):
        tree += bytes((what, up, 1 if ns else 0, *((2 * ns % 128 | 128, 2 * ns >> 7) if ns else (0,))))
    states = base64.b64encode(bytes((100, 0, 0, 100, 60, 0))).decode()
    put_view(path, NAMES, tree, script_for("", "idle=false&scope=threads", "wakers=true&scope=merged"), lengthNs=100, kinds=[0, 0, 7, 0], kind="waits", by="thread", period=0, groups=["p", "idle", "locked", "busy"],
             nodes=9, states=["sleeping", "lock"], byState=states)
    whole, hidden, wakers = json.loads(browse(path).body["shown"])
    assert whole[2:] == ["Hide 1 idle thread", "260"] and hidden[2:] == ["Show 1 idle thread", "160"]
    assert wakers[0] == {"all": [3, 0], "all/main": [3, 2], "all/main/b": [1, 1]} and not any(name.endswith("/b") for name in whole[0])
    assert {name.split("/")[2] for name in hidden[0] if name.count("/") == 2} == {"locked", "busy"}


def test_menu_wheel_and_drag(page, browse, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page.read_text())
    put_view(path, NAMES, nodes_of(CALLS), """
const seen = {}, place = $("canvas").getBoundingClientRect(), at = (x, y) => ({ clientX: place.left + x, clientY: place.top + y, bubbles: true, cancelable: true });
const send = (type, x, y, more) => $("canvas").dispatchEvent(new (type.startsWith("pointer") ? PointerEvent : type === "wheel" ? WheelEvent : MouseEvent)(type, { ...at(x, y), ...more }));
const choose = (text) => [...$("menu").children].find((item) => item.textContent.startsWith(text)).click();
go({ mode: "icicle" });
send("pointermove", 3, 30);
seen.tip = $("tip").textContent;
send("contextmenu", 3, 50);
seen.menu = [...$("menu").children].map((item) => item.textContent);
seen.line = views[0].lineOf(4);
choose("Hide");
seen.hidden = [location.hash, $("unhide").textContent];
$("unhide").click();
seen.shown = location.hash;
send("wheel", 3, 30, { deltaY: -300, ctrlKey: true });
seen.wide = [graph.from, graph.to];
send("pointerdown", 300, 30, { button: 0 });
send("pointermove", 200, 30);
send("click", 200, 30);
seen.moved = [graph.from > seen.wide[0], location.hash];
send("contextmenu", 3, 30);
choose("Callers and callees");
seen.function = location.hash;
const press = (key) => $("canvas").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
press("Escape");
seen.back = location.hash;
history.back = () => seen.left = true;
history.replaceState(null, "");
press("Backspace");
go({ mode: "icicle" });
press("Backspace");
seen.steps = [seen.left, history.state.steps];
const tail = new View({ ...recording.views[0], kind: "tail", unit: "ns", sides: ["typical", "slow"], scales: [1, 0.5], certain: [1, 1, 0, 0, 0, 0, 0] });
seen.tail = [amount(tail, tail.total.map((of) => of[0])), tail.isBeyondNoise([1, 2], { nodes: [1] }), tail.isBeyondNoise([1, 2], { nodes: [2, 3] })];
seen.names = shorterNames("ns::Map<int, std::pair<a, b>>::find(long, int) const");
document.body.dataset.seen = JSON.stringify(seen);
""", files=["", "app.c"], sources=[1, 1, 1, 1], lines=[3, 5, 7, 9])
    seen = json.loads(browse(path).body["seen"])
    assert seen["menu"][-1] == "Copy the line with most samples" and seen["line"] == "app.c:7"
    assert seen["tip"].startswith("main63 samples (100.0 %)")
    assert seen["menu"][:4] == ["Zoom to it", "Callers and callees of b", "Hide b: its callers get what it used", "Leave out all stacks with b"]
    assert seen["hidden"] == ["#mode=icicle&merge=2", "Show 1 hidden function"] and seen["shown"] == "#mode=icicle"
    assert seen["wide"][0] < 0.1 and abs(seen["wide"][1] - seen["wide"][0] - 1 / 2.71828) < 0.01
    assert seen["moved"] == [True, "#mode=icicle"]
    assert seen["function"] == "#mode=function&function=0" and seen["back"] == ""
    # Slow calls against typical calls: the time per call, and whether a frame differs by more than chance.
    assert seen["tail"] == ["31.5 \u00b5s", True, False]
    # Backspace does not leave the page.
    assert seen["steps"] == [True, 1]
    assert seen["names"] == ["ns::Map<int, std::pair<a, b>>::find(long, int) const", "ns::Map<int, std::pair<a, b>>::find(\u2026) const",
                             "ns::Map<\u2026>::find(\u2026) const", "\u2026::Map<\u2026>::find(\u2026) const", "\u2026::find(\u2026) const"]


def test_search_and_filter(page, browse, tmp_path):
    """
    Searches for a substring and for a regular expression, filters the list of processes, and shows shares of a zoomed
    frame only of what is below it.
    """
    path = tmp_path / "page.html"
    path.write_text(page.read_text())
    processes = [f"{'worker' if i % 4 == 3 else 'shop'} ({100 + i})" for i in range(16)]
    tree = bytearray((0, 0))
    for i in range(len(processes)):
        tree += bytes((0, 1 + 3 * i, 0, 0, 1, 1, 1, 0, 3, 1, 2, 0))
    put_view(path, ["main", "toplev::main"], tree, """
const found = (find) => {
	go({ find });
	return [document.body.dataset.matched, $("share").textContent];
};
const seen = { matched: ["main", "/^main$/", "/^top.*n$/", "/(/", ""].map(found) };
const choices = (text) => {
	$("filter").value = text;
	$("filter").dispatchEvent(new Event("input"));
	return [$("filter").hidden, [...$("scope").options].slice(2).map((one) => one.textContent.split("  ")[0])];
};
seen.choices = ["", "WORK", "115", "no such"].map(choices);
go({ scope: "merged", path: [0, 2] });
seen.shares = [graph.zoomed.up, graph.zoomed, root].map(numbersOf);
go({ mode: "table" });
document.querySelector("tr[data-key='0']").click();
seen.exact = [state.mode, state.function, root.total[0], callers.zoomed.kids.length];
document.body.dataset.seen = JSON.stringify(seen);
""", by="process", groups=processes)
    seen = json.loads(browse(path).body["seen"])
    assert [matched for matched, _ in seen["matched"]] == ["48", "48", "32", "", ""]
    assert seen["matched"][2][1].startswith("66.7 %") and seen["matched"][3][1] == "no regular expression"
    whole, work, one, none = seen["choices"]
    assert whole == [False, processes] and work[1] == [name for name in processes if "worker" in name]
    assert one[1] == ["worker (115)"] and none[1] == []
    assert not any("of toplev" in text for text in seen["shares"])
    # A click in the table shows that function alone, in the mode for functions.
    assert seen["exact"] == ["function", 0, 48, 0]


def test_times_add_up(page, browse, tmp_path):
    """
    The values of a view over all slots add up to its tree, node by node, and so do the values of two parts of the time.
    """
    path = tmp_path / "page.html"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    path.write_text(text.replace("</body>", """<script>
const sumsOf = (view, range) => view.slots.within(range, view);
const same = (a, b) => a.every((value, i) => value === b[i]);
document.body.dataset.seen = JSON.stringify(views.filter((view) => view.slots).map((view) => {
	const whole = sumsOf(view, [0, Infinity]), middle = view.slots.timeOf(Math.floor(view.slots.end / 2));
	const [first, second] = [[0, middle], [middle, Infinity]].map((range) => sumsOf(view, range));
	go({ view: views.indexOf(view), scope: "merged", range: [0, middle] });
	const shown = scope.whole, parts = first.self.map((of, which) => of.map((value, i) => value + second.self[which][i]));
	return { kind: view.kind, isWhole: [0, 1].every((which) => same(whole.self[which], view.self[which])),
		isSum: [0, 1].every((which) => same(parts[which], view.self[which])),
		isShown: shown === first.self[view.weight].reduce((a, b) => a + b, 0), isPart: shown > 0 && shown < view.whole,
		states: (view.states || []).every((_, i) => same(whole.stateSelf[i], view.stateSelf[i])) };
}));
</script></body>"""))
    seen = json.loads(browse(path).body["seen"])
    assert [view.pop("kind") for view in seen][:2] == ["samples", "calls"]
    assert all(all(view.values()) for view in seen), seen


def test_timeline(page, browse, tmp_path):
    """
    Checks the values of a slot of a lane, a time range in the address, and a range selected with the mouse. Shows slow
    calls and their causes, and all calls where the time is zoomed in.
    """
    path = tmp_path / "page.html"
    path.write_text(page.read_text())
    tree, slots = bytearray((0, 0)), bytearray()
    for what, up, ms in ((0, 1, 0), (0, 1, 0), (1, 1, 40), (0, 3, 0), (1, 1, 50)):
        tree += bytes((what, up, 1 if ms else 0)) + packed(2 * MS * ms)
    # slot, node, state, waits, ms: thread a in node 3, b in node 5
    for slot, node, state, waits, ms in ((0, 3, 0, 1, 30), (1, 0, 1, 0, 10), (0, 2, 1, 1, 40), (2, 0, 1, 0, 10)):
        slots += bytes((slot, 2 * node, state, waits)) + packed(2 * MS * ms)
    put_view(path, NAMES, tree, """
const lane = (name) => threadLanes.all.find((one) => one.name === name), place = () => $("strip-canvas").getBoundingClientRect();
const seen = { a: [1.02e9, 1.06e9, 1.12e9].map((at) => lanes.textAt(lane("a"), at)), b: [1.02e9, 1.06e9].map((at) => lanes.textAt(lane("b"), at)),
	range: [...state.range], shown: document.body.dataset.ns, button: $("range").textContent };
const send = (type, part) => $("strip-canvas").dispatchEvent(new PointerEvent(type, { clientX: place().left + part * place().width, clientY: place().top + 9, button: 0, bubbles: true }));
go({ mode: "icicle" });
send("pointerdown", 0.25);
send("pointermove", 0.5);
send("pointerup", 0.5);
seen.brushed = [location.hash, document.body.dataset.ns];
send("pointerdown", 0.5);
send("pointerup", 0.5);
seen.all = [location.hash, document.body.dataset.ns];
go({ mode: "why", range: [1.0e9, 1.05e9] });
const texts = (selector) => [...$("why").querySelectorAll(selector)].map((one) => one.textContent);
seen.why = [texts("p"), texts("li"), texts("td"), texts("button:disabled")];
go({ range: [] });
$("why").querySelector("button").click();
seen.slowest = location.hash;
const laneAt = (ns, y) => {
	const place = $("lanes-canvas").getBoundingClientRect();
	const { lane, call } = lanes.laneAt({ clientX: lanes.xOf(ns), clientY: place.top + y });
	return [lane?.name, call];
};
/* The lane of b comes first: it has more time. Its calls are two rows. */
seen.calls = [[1.07e9, 3], [1.07e9, 24], [1.07e9, 37], [1.085e9, 37], [1.07e9, 50]].map((place) => laneAt(...place));
seen.legend = $("legend").textContent;
go({ window: lanes.windowAt(1.075e9, 2, 0) });
seen.narrower = state.window;
go({ window: lanes.windowAt(1.075e9, 1, 0.5) });
seen.moved = state.window;
$("reset").click();
seen.whole = [location.hash, laneAt(1.07e9, 24)];
KEYS.z();
seen.zoomed = location.hash;
document.body.dataset.seen = JSON.stringify(seen);
""", lengthNs=200 * MS, why={
                 "requests": ["requests: calls of <b>", ""], "causes": ["lock: 2 of 2", "CPU: 1 of 2"], "more": 0, "locks": [[2, 90 * MS, 50 * MS, "0x7f0012345678", "b", "f"]],
                 "slow": [[0, 1060 * MS, 1090 * MS, "b", "", 0, [["a", "b", 1065 * MS, 1080 * MS]]], [0, 1010 * MS, 1020 * MS, "a", "b", 1015 * MS, []],
                          [1, 1100 * MS, 1105 * MS, "gone", "", 0, []]]},
             slices={"threads": ["b"], "names": ["f", "g"], "all": 9, "count": 2, "data": base64.b64encode(
                 b"\1" + packed(2 * 1060 * MS) + packed(30 * MS) + b"\0\0" + packed(2 * 5 * MS) + packed(10 * MS) + b"\1").decode()},
             kind="waits", by="thread", period=0, groups=["p", "a", "b"], nodes=6, states=["sleeping", "lock"],
             byState=base64.b64encode(b"".join(packed(MS * ms) for ms in (30, 10, 0, 50))).decode(),
             slotNs=50 * MS, slotFromNs=1000 * MS, entries=4,
             slots=base64.b64encode(slots).decode())
    seen = json.loads(browse(path, mode="time", **{"from": "1", "to": "1.05"}).body["seen"])
    assert seen["a"] == ["1 s \u00b7 sleeping \u00b7 slow call of 10.0 ms: lock: 2 of 2", "1.05 s \u00b7 lock 20.0 % \u00b7 works for a slow call of b", "1.1 s \u00b7 sleeping"]
    assert seen["b"] == ["1 s \u00b7 sleeping", "1.05 s \u00b7 lock 80.0 % \u00b7 slow call of 30.0 ms: lock: 2 of 2"]
    assert seen["why"] == [["requests: calls of <b>"], ["lock: 2 of 21 of 2 such calls in this part of the time", "CPU: 1 of 20 of 1 such call in this part of the time"],
                           ["2", "90.0 ms", "50.0 ms", "0x7f0012345678", "b", "f"], ["CPU: 1 of 2"]]
    assert seen["slowest"] == "#mode=time&from=1.06&to=1.09&left=1.045&right=1.105"
    assert seen["calls"] == [["b", None], ["b", "f, 30.0 ms"], ["b", "g, 10.0 ms"], ["b", None], ["a", None]]
    assert "When zoomed in: the 2 longest of 9 calls." in seen["legend"]
    assert seen["narrower"] == [1060 * MS, 1090 * MS] and seen["moved"] == [1075 * MS, 1105 * MS]
    assert seen["whole"] == ["#mode=time&from=1.06&to=1.09", ["a", None]] and seen["zoomed"].endswith("&left=1.06&right=1.09")
    assert seen["range"] == [1e9, 1.05e9] and seen["shown"] == f"{30 * MS}" and seen["button"] == "1 to 1.05 s \u00d7"
    assert re.fullmatch(r"#mode=icicle&from=1\.05\d*&to=1\.[01]\d*", seen["brushed"][0]) and seen["brushed"][1] == f"{50 * MS}"
    assert seen["all"] == ["#mode=icicle", f"{90 * MS}"]


def test_deep_recursion(page, browse, tmp_path):
    """A stack of 10 000 frames of ten functions counts once per function."""
    path = tmp_path / "page.html"
    path.write_text(page.read_text())
    depth, tree = 10000, bytearray((0, 0))
    for i in range(depth):
        tree += bytes((1 + 2 * (i % 10), 1, 1, 0))
    put_view(path, [f"f{i}" for i in range(10)], tree)
    page = browse(path, mode="table")
    assert sums(page, "self", "total") == {f"f{i}": [depth / 10, depth - i] for i in range(10)}
    page = browse(path, path=".".join(str(2 * (i % 10)) for i in range(9000)), reversed="false")
    assert page.texts["what"] == "f9" and "1,001 samples" in page.texts["numbers"]


@pytest.fixture(scope="module")
def hostile(xprof, tmp_path_factory):
    """Records a program whose names are markup."""
    directory = tmp_path_factory.mktemp("hostile")
    source, plain, renamed = (directory / name for name in ("a.cpp", "a.o", "b.o"))
    source.write_text(SOURCE.replace('"the helper"', r'"<img src=y>\xe2\x80\xae"').replace("0.8", "0.2").replace("0.4", "0.2"))
    program = directory / PROGRAM
    commands = [
        ["g++", "-O1", "-fPIE", "-c", "-o", plain, source],
        ["objcopy", *(f"--redefine-sym={old}={new}" for old, new in HOSTILE.items()), plain, renamed],
        ["g++", "-pthread", "-o", program, renamed],
    ]
    for command in commands:
        subprocess.run(command, check=True)
    done = xprof("record", "-F", "997", "-o", directory / "recording", "--export", "html", "--", program)
    assert done.returncode == 0, done.stderr
    return directory / "recording/recording.html"


def test_hostile_names_are_text(hostile, browse, tmp_path):
    page = browse(hostile, mode="table")
    names = "\n".join(row["name"] for row in page.rows)
    assert '</script><img src=x onerror="document.title=1"><!--<script>\\u{202e}' in names
    assert "\"'\\?\\u{2028}</style>&lt;" in names
    assert not {"img", "b", "iframe"} & {*page.tags[page.tags.index("nav"):]}
    assert page.tags.count("script") == 2 and page.tags.count("style") == 1 and "\u202e" not in str(page.rows)
    raw = hostile.read_bytes()
    data = raw[raw.index(b'id="data">') :].split(b"</script>")[0]
    assert b"<" not in data[10:] and b">" not in data[10:] and "\u2028".encode() not in data


def test_nothing_but_the_own_script_runs(hostile, browse, tmp_path):
    """Markup in names fetches nothing and does not run."""
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        markup = f"""<script>document.body.dataset.ran = "1"</script><img src="{url}/i" onerror="document.body.dataset.ran = '2'">
<script src="{url}/s"></script><link rel="stylesheet" href="{url}/c"><iframe src="{url}/f"></iframe></body>"""
        path = tmp_path / "page.html"
        path.write_text(hostile.read_text().replace("</body>", markup))
        page = browse(path)
        server.shutdown()
    assert "ran" not in page.body and not asked


def test_calls_without_samples(made, tmp_path):
    directory = tmp_path / "recording"
    done = made.xprof("record", "--no-samples", "--export", "html", "-o", directory, "--", made.program)
    assert done.returncode == 0, done.stderr
    text = (directory / "recording.html").read_text()
    assert '"kind":"calls"' in text and '"kind":"samples"' not in text
    done = made.export("--format=html", "-o", tmp_path / "page.html", "--tid", "1", directory=directory, status=1)
    assert "nothing to export: no sample, call or wait is selected" in done.stderr and not (tmp_path / "page.html").exists()


def test_output_that_fails(made):
    done = made.export("--format=html", "-o", "/dev/full", status=1)
    assert "/dev/full: cannot write it: No space left on device" in done.stderr
    pipe = f"{made.xprof.path} export --format html -o - {made.directory} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", pipe], stderr=subprocess.DEVNULL).returncode in (0, 1, 141)
