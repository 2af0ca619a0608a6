// SPDX-License-Identifier: BSD-2-Clause
/*
 * The page of `export --format html`: what is shown, and the controls that change it.
 *
 *	state  <-->  fragment of the address
 *	  |
 *	  +-->  scope (page_data.js)  -->  graph (page_draw.js) or table (page_table.js)
 *
 * Every control calls go(): it changes the state, puts it into the address, and shows it. Totals of what is shown are
 * in data attributes of the body, for programs.
 */
"use strict";

const $ = (id) => document.getElementById(id);
const START = { view: 0, mode: "flame", reversed: false, scope: "split", threads: "merged", find: "", path: [], sort: "self", width: "b" };
const SORTS = ["self", "total", "calls", "waits", "mean", "change", "totalChange", "selfA", "totalA"];
const MODES = ["flame", "icicle", "table"];

const recording = JSON.parse($("data").textContent);
if (recording.sides) {
	START.scope = "merged";
	START.sort = "change";
}
const views = recording.views.map((raw) => new View(raw));
const graph = new Graph($("canvas"), $("graph"), $("tall"));
const table = new Table($("rows"), $("more"), (change) => go(change));
let state = { ...START }, scope = null, root = null, rootKey = "";

/* ---- the address ---- */

function fragmentOf(it) {
	const words = new URLSearchParams();
	for (const key of Object.keys(START)) {
		const value = key === "view" ? views[it.view].kind : key === "path" ? it.path.join(".") : `${it[key]}`;
		if (value !== (key === "view" ? views[0].kind : key === "path" ? "" : `${START[key]}`))
			words.set(key, value);
	}
	return `#${words}`;
}

/* The fragment may be anything. */
function stateOf(fragment) {
	const words = new URLSearchParams(fragment.replace(/^#/, "")), it = { ...START };
	it.view = Math.max(views.findIndex((view) => view.kind === words.get("view")), 0);
	if (MODES.includes(words.get("mode")))
		it.mode = words.get("mode");
	it.reversed = words.get("reversed") === "true";
	it.find = (words.get("find") || "").slice(0, 10000);
	const isGroup = (text) => /^[0-9]{1,10}$/.test(text) && Number(text) < views[it.view].count &&
		views[it.view].isGroup(Number(text));
	for (const key of ["scope", "threads"])
		if (["merged", "split", "threads"].includes(words.get(key)) || isGroup(words.get(key)))
			it[key] = words.get(key);
	it.path = (words.get("path") || "").split(".").filter((code) => /^-?[0-9]{1,10}$/.test(code)).map(Number);
	it.sort = SORTS.includes(words.get("sort")) ? words.get("sort") : START.sort;
	it.width = words.get("width") === "a" ? "a" : "b";
	return it;
}

function go(change, isStep = true) {
	const next = { ...state, ...change };
	if (change.view !== undefined || change.scope !== undefined || change.threads !== undefined || change.reversed !== undefined)
		next.path = change.path || [];
	if (change.view !== undefined && change.view !== state.view)
		next.scope = START.scope, next.threads = START.threads;
	if (change.scope !== undefined)
		next.threads = change.threads || START.threads;
	state = next;
	const fragment = fragmentOf(state);
	if (fragment !== (location.hash || "#"))
		history[isStep ? "pushState" : "replaceState"](null, "", fragment);
	show();
}

/* ---- what is shown ---- */

function scopeOf(view) {
	const of = (node, split, name) => Object.assign(new Scope(view, node, split), { label: name });
	if (!/^[0-9]+$/.test(state.scope))
		return of(0, { split: 1, threads: 2 }[state.scope] || 0, "all");
	if (/^[0-9]+$/.test(state.threads))
		return of(Number(state.threads), 0, view.nameOf(view.code[Number(state.threads)]));
	return of(Number(state.scope), state.threads === "split" ? 1 : 0, view.nameOf(view.code[Number(state.scope)]));
}

function codeMatcher(view) {
	const matches = matcher(state.find), known = new Map();
	return matches && ((code) => {
		let is = known.get(code);
		if (is === undefined)
			known.set(code, is = matches(view.nameOf(code)));
		return is;
	});
}

function amount(view, values) {
	if (view.isDiff)
		return amountOf(values[view.weight], view.unit);
	return view.isTimed ? time(values[1]) : count(values[0], "sample");
}

function show() {
	const view = views[state.view], isTable = state.mode === "table";
	if (view.isDiff)
		view.setWeight(state.width === "a" ? 0 : 1);
	scope = scopeOf(view);
	graph.isMatch = codeMatcher(view);
	showControls(view);
	showShare(view);
	$("graph").hidden = isTable;
	$("rows").hidden = !isTable;
	$("message").hidden = scope.whole > 0;
	$("message").textContent = view.isCalls ? "No call has ended, so there are no times. The table has the calls." : `No ${view.kind}.`;
	if (isTable) {
		table.sort = state.sort;
		table.show(scope, graph.isMatch);
		describe(null);
	} else {
		showGraph();
		describe(graph.zoomed);
		$("reset").hidden = graph.zoomed === root;
	}
	Object.assign(document.body.dataset, {
		a: view.isDiff ? scope.view.total[0][scope.root] : "", b: view.isDiff ? scope.view.total[1][scope.root] : "",
		view: view.kind, waits: view.kind === "waits" ? scope.view.total[0][scope.root] : 0,
		samples: view.isTimed ? 0 : scope.view.total[0][scope.root],
		calls: view.isCalls ? scope.view.total[0][scope.root] : 0, ns: scope.view.total[1][scope.root],
	});
}

/* Frames that are known stay: zooming and searching make no others. */
function showGraph() {
	const key = [state.view, state.scope, state.threads, state.reversed, state.width].join();
	if (key !== rootKey) {
		root = Frame.root(scope, state.reversed);
		rootKey = key;
	}
	graph.chosen = null;
	graph.show(root.find(state.path), state.mode === "flame");
}

function showShare(view) {
	const sum = graph.isMatch ? scope.matched(graph.isMatch) : null;
	$("share").textContent = sum ? `${share(sum[view.weight], scope.whole)} \u00b7 ${amount(view, sum)}` :
		state.find ? "no regular expression" : "";
	document.body.dataset.matched = sum ? sum[view.weight] : "";
}

function showControls(view) {
	[...$("views").children].forEach((tab, i) => tab.setAttribute("aria-selected", i === state.view));
	for (const button of $("modes").children)
		button.setAttribute("aria-pressed", button.dataset.mode === state.mode);
	$("reversed").setAttribute("aria-pressed", state.reversed);
	$("reversed").disabled = state.mode === "table";
	$("widths").hidden = !view.isDiff;
	for (const button of $("widths").children)
		button.setAttribute("aria-pressed", button.dataset.width === state.width);
	$("reset").hidden = true;
	if ($("search").value !== state.find)
		$("search").value = state.find;
	showScopes(view);
	showLegend(view);
}

function fill(select, choices, value) {
	select.replaceChildren(...choices.map(([id, text]) => {
		const option = document.createElement("option");
		option.value = id;
		option.textContent = text;
		return option;
	}));
	select.value = value;
}

function groupChoices(view, node) {
	return view.groupsOf(node).map((group) =>
		[`${group}`, `${label(view.nameOf(view.code[group]))}  ${share(view.total[view.weight][group], view.whole)}`]);
}

function showScopes(view) {
	const [outer, inner] = { process: ["processes"], thread: ["processes", "threads"], comm: ["names"], cpu: ["CPUs"] }[view.by] || [];
	const groups = outer ? groupChoices(view, 0) : [];
	const all = [["split", `All ${outer}, each on its own`], ["merged", `All ${outer}, merged`]];
	if (inner)
		all.splice(1, 0, ["threads", "All threads, each on its own"]);
	fill($("scope"), [...all, ...groups], state.scope);
	$("scope").hidden = groups.length < 2 && !(inner && groups.some(([id]) => view.groupsOf(Number(id)).length > 1));
	const threads = inner && /^[0-9]+$/.test(state.scope) ? groupChoices(view, Number(state.scope)) : [];
	fill($("threads"), [["merged", "All threads, merged"], ["split", "All threads, each on its own"], ...threads], state.threads);
	$("threads").hidden = threads.length < 2;
}

const KIND_NAMES = { user: "user", kernel: "kernel", jit: "JIT", unknown: "no object", inlined: "inlined", group: "process, thread" };

function showChangeLegend(view) {
	const entries = [["grew", [0, 1e9]], ["shrank", [1e9, 0]], ["within the noise of sampling", [0, 0]]];
	$("legend").replaceChildren(...entries.slice(0, view.isTimed ? 2 : 3).map(([text, values]) => {
		const entry = document.createElement("span");
		entry.append(document.createElement("i"), text);
		entry.firstChild.style.background = colourOfChange(view, values);
		return entry;
	}));
}

function showStateLegend(view) {
	const order = view.states.map((state, i) => [state, view.stateTotal[i][scope.root]]).filter(([, ns]) => ns);
	$("legend").replaceChildren(...order.sort((a, b) => b[1] - a[1]).map(([state, ns]) => {
		const entry = document.createElement("span");
		entry.append(document.createElement("i"), `${state} ${share(ns, scope.whole)}`);
		entry.firstChild.style.background = colourOfStates(view, view.states.map((one) => Number(one === state)), "");
		return entry;
	}));
}

function showLegend(view) {
	if (view.isDiff || view.states) {
		(view.isDiff ? showChangeLegend : showStateLegend)(view);
		return;
	}
	const sums = scope.kinds(), used = view.kindsUsed;
	$("legend").replaceChildren(...KINDS.flatMap((kind, i) => {
		if (!sums[i] && !used.has(i))
			return [];
		const entry = document.createElement("span");
		entry.append(document.createElement("i"), i === 5 ? KIND_NAMES[kind] : `${KIND_NAMES[kind]} ${share(sums[i], scope.whole)}`);
		entry.firstChild.style.background = colourOf(i, "");
		return [entry];
	}));
}

/* The line at the bottom. */
function describe(frame) {
	if (!frame) {
		$("what").textContent = $("numbers").textContent = "";
		return;
	}
	const { view } = scope, which = view.weight;
	const parts = [`${amount(view, frame.total)} (${share(frame.total[which], scope.whole)})`];
	if (graph.zoomed?.up && frame !== graph.zoomed)
		parts.push(`${share(frame.total[which], graph.zoomed.total[which])} of ${short(nameOf(graph.zoomed))}`);
	if (view.isDiff)
		parts.push(changeOf(frame.total, view.unit), `A ${amountOf(frame.total[0], view.unit)}`, `B ${amountOf(frame.total[1], view.unit)}`);
	if (view.isDiff && !frame.leaves && (frame.self[0] || frame.self[1]))
		parts.push(`self ${changeOf(frame.self, view.unit)}${view.isBeyondNoise(frame.self) ? "" : ", within the noise"}`);
	else if (frame.self[which])
		parts.push(`self ${amount(view, frame.self)}`);
	if (!view.isDiff && view.isCalls && !frame.leaves && frame.up && frame.self[0])
		parts.push(count(frame.self[0], "call"), `mean ${time(frame.total[1] / frame.self[0])}`);
	if (view.states) {
		parts.push(count(frame.total[0], "wait"));
		parts.push(...view.states.map((state, i) => [state, frame.states[i]]).filter(([, ns]) => ns)
			.sort((a, b) => b[1] - a[1]).map(([state, ns]) => `${state} ${time(ns)}`));
	}
	if (!view.isDiff && !view.isTimed && view.period)
		parts.push(`${time(frame.total[1])} of CPU`);
	if (frame.up) {
		const file = view.fileOf(frame.code), object = view.objectOf(frame.code);
		parts.push(...[KIND_NAMES[KINDS[view.kindOf(frame.code)]], object, file].filter(Boolean).map(label));
	}
	$("what").textContent = label(nameOf(frame));
	$("numbers").textContent = parts.join(" \u00b7 ");
}

function short(name) {
	const shown = label(name);
	return shown.length > 40 ? `${shown.slice(0, 39)}\u2026` : shown;
}

/* ---- once ---- */

function showSides() {
	const [a, b] = recording.sides.map((side) => visible(side.path));
	$("command").textContent = $("command").title = `A: ${a}   B: ${b}`;
	document.title = `${b} against ${a} \u2013 xprof`;
	$("summary").replaceChildren(...recording.sides.flatMap((side, i) => {
		const one = document.createElement("span");
		one.textContent = `${"AB"[i]}: ${side.lengthNs ? time(side.lengthNs) : "unknown length"}`;
		return [one];
	}));
}

function showHead() {
	if (recording.sides) {
		showSides();
		return;
	}
	const of = recording, facts = [];
	const add = (text, isLost) => text && facts.push([text, isLost]);
	$("command").textContent = visible(of.command || "");
	$("command").title = $("command").textContent;
	document.title = of.command ? `${visible(of.command).slice(0, 100)} \u2013 xprof` : "xprof";
	add(visible(of.machine || ""));
	if (of.startedMs)
		add(new Date(of.startedMs).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC"));
	if (of.lengthNs)
		add(time(of.lengthNs));
	for (const view of views) {
		add(`${count(view.total[0][0], view.one)}` +
			`${!view.isTimed && view.period ? `, one every ${time(view.period)}` : ""}`);
		if (view.dropped)
			add(`${count(view.dropped)} ${view.kind} left out`, true);
	}
	if (of.lost !== undefined)
		add(`${count(of.lost)} lost`, of.lost > 0);
	add(of.stacks, of.lackMany);
	$("summary").replaceChildren(...facts.map(([text, isLost]) => {
		const one = document.createElement("span");
		one.textContent = text;
		one.className = isLost ? "lost" : "";
		return one;
	}));
}

function addTabs() {
	views.forEach((view, i) => {
		const tab = document.createElement("button");
		tab.type = "button";
		tab.setAttribute("role", "tab");
		tab.textContent = { samples: "CPU", calls: "Calls", waits: "Waits" }[view.kind];
		tab.addEventListener("click", () => go({ view: i }));
		$("views").append(tab);
		view.kindsUsed = new Set();
		for (let node = 1; node < view.count; node++)
			view.kindsUsed.add(view.kindOf(view.code[node]));
	});
}

function setTheme(name) {
	document.documentElement.dataset.theme = name;
	$("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function zoomTo(frame) {
	go({ path: frame.path });
	graph.chosen = frame;
	graph.draw();
}

function back() {
	if (state.path.length)
		go({ path: [] });
	else if (state.find)
		go({ find: "" });
}

function moveTo(event) {
	graph.chosen = graph.neighbour(graph.chosen || graph.zoomed, event.key);
	graph.reveal(graph.chosen);
	graph.redraw();
	describe(graph.chosen);
	event.preventDefault();
}

const KEYS = {
	"/": () => $("search").select(),
	"?": () => $("help").showModal(),
	f: () => go({ mode: "flame" }),
	i: () => go({ mode: "icicle" }),
	t: () => go({ mode: "table" }),
	r: () => state.mode !== "table" && go({ reversed: !state.reversed }),
	d: () => $("theme").click(),
	Escape: back,
	Backspace: () => history.back(),
};

function onKey(event) {
	const { target } = event;
	if (event.ctrlKey || event.metaKey || event.altKey || $("help").open)
		return;
	if (target === $("search")) {
		if (event.key === "Escape")
			$("canvas").focus();
		return;
	}
	if (target.tagName === "SELECT")
		return;
	if (event.key.startsWith("Arrow") && state.mode !== "table")
		moveTo(event);
	else if (event.key === "Enter" && target === $("canvas") && graph.chosen)
		zoomTo(graph.chosen);
	else if (Object.hasOwn(KEYS, event.key)) {
		event.preventDefault();
		KEYS[event.key]();
	}
}

function listen() {
	for (const button of $("modes").children)
		button.addEventListener("click", () => go({ mode: button.dataset.mode }));
	for (const button of $("widths").children)
		button.addEventListener("click", () => go({ width: button.dataset.width }));
	$("reversed").addEventListener("click", () => go({ reversed: !state.reversed }));
	$("scope").addEventListener("change", () => go({ scope: $("scope").value }));
	$("threads").addEventListener("change", () => go({ threads: $("threads").value }));
	let typed = 0;
	$("search").addEventListener("input", () => {
		clearTimeout(typed);
		typed = setTimeout(() => go({ find: $("search").value }, false), 120);
	});
	$("reset").addEventListener("click", () => go({ path: [] }));
	$("help-open").addEventListener("click", () => $("help").showModal());
	$("theme").addEventListener("click", () => {
		setTheme(isDark() ? "light" : "dark");
		show();
	});
	document.addEventListener("keydown", onKey);
	window.addEventListener("popstate", follow);
	window.addEventListener("hashchange", follow);
	window.addEventListener("beforeprint", () => print(true));
	window.addEventListener("afterprint", () => print(false));
	new ResizeObserver(() => {
		if (state.mode !== "table" && !graph.whole) {
			graph.layOut();
			graph.draw();
		}
	}).observe($("graph"));
	$("graph").addEventListener("scroll", () => graph.redraw(), { passive: true });
	listenToPointer();
}

function listenToPointer() {
	const point = (box) => {
		if (box === graph.pointed)
			return;
		graph.pointed = box;
		graph.redraw();
		describe(box || graph.chosen || graph.zoomed);
	};
	$("canvas").addEventListener("mousemove", (event) => point(graph.boxAt(event)?.frame || null));
	$("canvas").addEventListener("mouseleave", () => point(null));
	$("canvas").addEventListener("click", (event) => {
		const frame = graph.boxAt(event)?.frame;
		if (frame)
			zoomTo(frame);
	});
}

function follow() {
	const next = stateOf(location.hash);
	if (fragmentOf(next) !== fragmentOf(state)) {
		state = next;
		show();
	}
}

/* On paper: light, and all rows. */
function print(isOn) {
	print.theme ??= document.documentElement.dataset.theme;
	setTheme(isOn ? "light" : print.theme);
	if (!isOn)
		print.theme = undefined;
	graph.whole = isOn;
	show();
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", () => {
	setTheme(prefersDark.matches ? "dark" : "light");
	show();
});
showHead();
addTabs();
listen();
state = stateOf(location.hash);
show();
document.body.dataset.ready = "true";
