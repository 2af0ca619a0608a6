// SPDX-License-Identifier: BSD-2-Clause
/*
 * The page of `export --format html`: what is shown, and the controls that change it.
 *
 *	state  <-->  fragment of the address
 *	  |
 *	  +-->  hidden (page_hide.js)  -->  scope (page_data.js)  -->  graph (page_draw.js) or table (page_table.js)
 *
 * Every control calls go(), which changes the state, puts it into the address, and shows it. Totals of the shown values
 * are in data attributes of the body, for programs.
 */
"use strict";

const $ = (id) => document.getElementById(id);
const START = {
	view: 0, mode: "flame", reversed: false, scope: "split", threads: "merged", find: "", path: [], sort: "self", width: "b",
	function: -1, drop: [], merge: [], collapsed: false, idle: true, wakers: false, range: [], window: [],
};
/* Names of the time ranges in the address. */
const TIMES = { range: ["from", "to"], window: ["left", "right"] };
/* Members that contain numbers of nodes or functions of one view. */
const OF_VIEW = ["scope", "threads", "function", "drop", "merge"];
const SORTS = ["self", "total", "calls", "waits", "mean", "change", "totalChange", "selfA", "totalA"];
const MANY = 12; /* number of processes that need no filter */
const MODES = ["flame", "icicle", "table", "function", "time", "why"];
/* Modes that show a graph of frames. */
const isGraph = () => !["table", "time", "why"].includes(state.mode);

const recording = JSON.parse($("data").textContent);
if (recording.sides) {
	START.scope = "merged";
	START.sort = "change";
}
const views = recording.views.map((raw) => new View(raw));
const graph = new Graph($("canvas"), $("graph"), $("tall"));
/* Above the graph of a function: its callers. */
const callers = new Graph($("callers-canvas"), $("callers"), $("callers-tall"));
const brushed = (range) => go({ range });
const strips = new Strip($("strip-canvas"), $("strip"), null, 0, brushed);
/* Shows the time range of a call, with half of its length on both sides. */
const why = new Why($("why"), recording.why, ({ from, to }) =>
	go({ range: [from, to], ...hasLanes && { mode: "time", window: [Math.max(from - (to - from) / 2, recorded[0]), Math.min(to + (to - from) / 2, recorded[1])] } }));
const slices = recording.slices ? new Slices(recording.slices) : null;
const lanes = new Lanes($("lanes-canvas"), $("lanes"), $("lanes-tall"), NAMES, brushed);
const tip = new Tip($("tip")), menu = new Menu($("menu"));
const table = new Table($("rows"), $("more"), (change) => go(change));
/* Without threads, there are no lanes. */
const hasLanes = views.some((view) => view.slots && !view.isCalls && view.by === "thread");
const threadLanes = hasLanes ? lanesOf(views) : null;
/* From the first to the last moment of the call. */
const recorded = [recording.fromNs || 0, (recording.fromNs || 0) + Math.max(recording.lengthNs || 0, 1)];
let state = { ...START }, scope = null, root = null, rootKey = "", steps = 0;

/* ---- the address ---- */

function fragmentOf(it) {
	const words = new URLSearchParams();
	for (const key of Object.keys(START)) {
		if (TIMES[key]) {
			TIMES[key].slice(0, it[key].length).forEach((name, i) => words.set(name, seconds(it[key][i])));
			continue;
		}
		const text = (of) => key === "view" ? views[of.view].kind : Array.isArray(of[key]) ? of[key].join(".") : `${of[key]}`;
		if (text(it) !== text(START))
			words.set(key, text(it));
	}
	return `#${words}`;
}

/* The fragment may contain any text. */
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
	const numbers = (key) => (words.get(key) || "").split(".").filter((code) => /^-?[0-9]{1,10}$/.test(code)).map(Number);
	const functions = (key) => numbers(key).filter((number) => number >= 0 && number < views[it.view].names.length);
	it.path = numbers("path");
	it.function = functions("function")[0] ?? START.function;
	it.drop = functions("drop");
	it.merge = functions("merge");
	it.collapsed = words.get("collapsed") === "true";
	it.idle = words.get("idle") !== "false";
	it.wakers = words.get("wakers") === "true";
	for (const [key, names] of Object.entries(TIMES))
		it[key] = rangeOf(words, names);
	if (it.mode === "function" && it.function < 0 || it.mode === "time" && !hasLanes || it.mode === "why" && !recording.why)
		it.mode = START.mode;
	it.sort = SORTS.includes(words.get("sort")) ? words.get("sort") : START.sort;
	it.width = words.get("width") === "a" ? "a" : "b";
	return it;
}

function go(change, isStep = true) {
	const next = { ...state, ...change };
	if (["view", "scope", "threads", "reversed", "function", "mode"].some((key) => change[key] !== undefined))
		next.path = change.path || (change.mode === undefined || next.mode === "function" || state.mode === "function" ? [] : state.path);
	if (change.view !== undefined && change.view !== state.view) {
		for (const key of OF_VIEW)
			next[key] = START[key];
		if (next.mode === "function")
			next.mode = START.mode;
	}
	if (next.mode !== "function")
		next.function = START.function;
	if (change.scope !== undefined)
		next.threads = change.threads || START.threads;
	state = next;
	const fragment = fragmentOf(state);
	if (fragment !== (location.hash || "#")) {
		steps = (history.state?.steps || 0) + isStep;
		history[isStep ? "pushState" : "replaceState"]({ steps }, "", fragment);
	}
	show();
}

/* ---- showing the state ---- */

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

/* If a tree of all threads has only their most frequent stacks, another one has the threads merged. */
function viewOf({ view, scope, idle }) {
	const isMerged = ["split", "merged"].includes(scope) && idle;
	return isMerged && views[view].merged || views[view];
}

/* The view without what is hidden. Making it takes a while: it is kept. */
function shownView() {
	const all = viewOf(state);
	if (all.isDiff)
		all.setWeight(state.width === "a" ? 0 : 1);
	const key = [state.drop, state.merge, state.collapsed, state.idle, state.wakers, state.width, state.range].join("|");
	if (all.shownKey !== key) {
		const idle = state.idle ? new Set() : idleThreads(all, recording.lengthNs);
		Object.assign(all, { shown: new Hiding({ ...state, isCollapsed: state.collapsed, idle }).of(all), shownKey: key });
	}
	return all.shown;
}

function show() {
	const view = shownView(), isTable = state.mode === "table", isTime = state.mode === "time";
	scope = scopeOf(view);
	graph.isMatch = callers.isMatch = codeMatcher(view);
	showControls(view);
	showShare(view);
	$("graph").hidden = !isGraph();
	$("callers").hidden = state.mode !== "function";
	$("rows").hidden = !isTable;
	$("why").hidden = state.mode !== "why";
	$("lanes").hidden = !isTime;
	$("strip").hidden = isTime || !view.slots;
	tip.hide();
	if (view.slots && !isTime)
		strips.show(Object.assign(Object.create(viewOf(state)), { weight: view.weight }), scope.root, recorded, state.range);
	$("message").hidden = isTime || state.mode === "why" || scope.whole > 0;
	$("message").textContent = view.isCalls ? "No call has ended, so there are no times. The table has the calls." : `No ${view.kind}.`;
	if (isTable) {
		table.sort = state.sort;
		table.show(scope, graph.isMatch);
		describe(null);
	} else if (state.mode === "why") {
		why.show(state.range);
		describe(null);
	} else if (isTime) {
		lanes.show(threadLanes, recorded, state.window, state.range, why.slow, slices);
		describe(null);
		$("reset").hidden = !state.window.length;
		$("reset").textContent = "All of the time";
	} else {
		showGraph();
		describe(graph.zoomed);
		$("reset").hidden = graph.zoomed === root && !root.isFunction;
		$("reset").textContent = root.isFunction ? "All functions" : "Reset zoom";
	}
	Object.assign(document.body.dataset, {
		a: view.isDiff ? scope.view.total[0][scope.root] : "", b: view.isDiff ? scope.view.total[1][scope.root] : "",
		view: view.kind, waits: view.kind === "waits" ? scope.view.total[0][scope.root] : 0,
		samples: view.isTimed ? 0 : scope.view.total[0][scope.root],
		calls: view.isCalls ? scope.view.total[0][scope.root] : 0, ns: scope.view.total[1][scope.root],
	});
}

/* Keeps existing frames: zooming and searching make no new ones. */
function showGraph() {
	const isFunction = state.mode === "function", { view } = scope;
	const key = [state.view, view.shownKey, state.scope, state.threads, isFunction ? state.function : state.reversed].join();
	if (key !== rootKey) {
		root = isFunction ? Frame.ofFunction(scope, state.function, false) : Frame.root(scope, state.reversed);
		rootKey = key;
		if (isFunction)
			callers.show(Frame.ofFunction(scope, state.function, true), true);
	}
	graph.chosen = callers.chosen = null;
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
	$("reversed").disabled = !isGraph() || state.mode === "function";
	$("time").hidden = !hasLanes;
	$("why-mode").hidden = !recording.why;
	$("range").hidden = !state.range.length;
	$("range").textContent = state.range.length ? `${seconds(state.range[0])} to ${seconds(state.range[1])} s \u00d7` : "";
	$("function").hidden = state.mode !== "function";
	showHidden(view);
	$("widths").hidden = !view.isDiff;
	[...$("widths").children].forEach((button, i) => {
		button.textContent = view.sides[i];
		button.setAttribute("aria-pressed", button.dataset.width === state.width);
	});
	$("reset").hidden = true;
	if ($("search").value !== state.find)
		$("search").value = state.find;
	showScopes(view.by === views[state.view].by ? view : views[state.view]);
	showLegend(view);
}

function showHidden(view) {
	const hidden = state.drop.length + state.merge.length, idle = idleThreads(views[state.view], recording.lengthNs).size;
	$("unhide").hidden = !hidden && !state.collapsed;
	$("unhide").textContent = `Show ${[hidden && count(hidden, "hidden function"), state.collapsed && "recursion"].filter(Boolean).join(", ")}`;
	$("unhide").title = [...state.drop, ...state.merge].map((key) => label(view.names[key])).join("\n");
	$("wakers").hidden = !views[state.view].hasWakers;
	$("wakers").setAttribute("aria-pressed", state.wakers);
	$("idle").hidden = !idle;
	$("idle").textContent = `${state.idle ? "Hide" : "Show"} ${count(idle, "idle thread")}`;
	$("idle").title = `They slept for ${share(IDLE, 1)} of the recording`;
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
	const groupsOfAll = outer ? groupChoices(view, 0) : [], filter = $("filter").value.toLowerCase();
	const groups = groupsOfAll.filter(([id, text]) => id === state.scope || text.toLowerCase().includes(filter));
	$("filter").hidden = groupsOfAll.length < MANY;
	const all = [["split", `All ${outer}, each on its own`], ["merged", `All ${outer}, merged`]];
	if (inner)
		all.splice(1, 0, ["threads", "All threads, each on its own"]);
	fill($("scope"), [...all, ...groups], state.scope);
	$("scope").hidden = groupsOfAll.length < 2 && !(inner && groups.some(([id]) => view.groupsOf(Number(id)).length > 1));
	const threads = inner && /^[0-9]+$/.test(state.scope) ? groupChoices(view, Number(state.scope)) : [];
	fill($("threads"), [["merged", "All threads, merged"], ["split", "All threads, each on its own"], ...threads], state.threads);
	$("threads").hidden = threads.length < 2;
}

const KIND_NAMES = { user: "user", kernel: "kernel", jit: "JIT", unknown: "no object", inlined: "inlined", group: "process, thread", recorder: "xprof's recording", waker: "waker", rare: "rare stacks" };

function showChangeLegend(view) {
	const entries = [["grew", [0, 1e9]], ["shrank", [1e9, 0]], [view.certain ? "may be chance" : "within the noise of sampling", [0, 0], { nodes: [] }]];
	$("legend").replaceChildren(...entries.slice(0, view.isTimed ? 2 : 3).map(([text, values, frame]) => {
		const entry = document.createElement("span");
		entry.append(document.createElement("i"), text);
		entry.firstChild.style.background = colourOfChange(view, values, frame);
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
	if (state.mode === "time") {
		$("legend").replaceChildren(...LANE_STATES.map((one) => {
			const entry = document.createElement("span");
			entry.append(document.createElement("i"), one);
			entry.firstChild.style.background = colourOfLane(one);
			return entry;
		}), `Each lane is a thread; a sleeping one is empty. Each column is ${time(threadLanes.ns)}.` +
			(slices && slices.count < slices.all ? ` When zoomed in: the ${count(slices.count)} longest of ${count(slices.all, "call")}.` : "") +
			(why.slow.length ? " A bar above a lane is a slow call, or work for one, and a line comes from the thread that woke it." : ""));
		return;
	}
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
	$("what").textContent = frame ? label(nameOf(frame)) : "";
	$("numbers").textContent = frame ? numbersOf(frame) : "";
}

function numbersOf(frame) {
	const { view } = scope, which = view.weight;
	const parts = [`${amount(view, frame.total)} (${share(frame.total[which], scope.whole)})`];
	if (graph.zoomed?.isNamed && frame !== graph.zoomed && graph.zoomed.isOver(frame))
		parts.push(`${share(frame.total[which], graph.zoomed.total[which])} of ${short(nameOf(graph.zoomed))}`);
	if (view.isDiff)
		parts.push(changeOf(frame.total, view.unit), ...view.sides.map((side, i) => `${side} ${amountOf(frame.total[i], view.unit)}`));
	if (view.certain && !view.isBeyondNoise(frame.total, frame))
		parts.push("may be chance");
	if (view.isDiff && !view.certain && !frame.leaves && (frame.self[0] || frame.self[1]))
		parts.push(`self ${changeOf(frame.self, view.unit)}${view.isBeyondNoise(frame.self) ? "" : ", within the noise"}`);
	else if (frame.self[which])
		parts.push(`self ${amount(view, frame.self)}`);
	if (!view.isDiff && view.isCalls && !frame.leaves && frame.isNamed && frame.self[0])
		parts.push(count(frame.self[0], "call"), `mean ${time(frame.total[1] / frame.self[0])}`);
	if (view.states) {
		parts.push(count(frame.total[0], "wait"));
		parts.push(...view.states.map((state, i) => [state, frame.states[i]]).filter(([, ns]) => ns)
			.sort((a, b) => b[1] - a[1]).map(([state, ns]) => `${state} ${time(ns)}`));
	}
	if (!view.isDiff && !view.isTimed && view.period)
		parts.push(`${time(frame.total[1])} of CPU`);
	if (frame.isNamed) {
		const file = view.fileOf(frame.code), object = view.objectOf(frame.code);
		parts.push(...[KIND_NAMES[KINDS[view.kindOf(frame.code)]], object, file].filter(Boolean).map(label));
	}
	return parts.join(" \u00b7 ");
}

function short(name) {
	const shown = label(name);
	return shown.length > 40 ? `${shown.slice(0, 39)}\u2026` : shown;
}

/* ---- at the start ---- */

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
	for (const view of views.filter((one) => !one.isDiff)) {
		add(`${count(view.total[0][0], view.one)}` +
			`${!view.isTimed && view.period ? `, one every ${time(view.period)}` : ""}`);
		if (view.dropped)
			add(`${count(view.dropped)} ${view.kind} left out`, true);
		if (view.rare)
			add(`${count(view.rare, "rare frame")} of ${view.kind}${view.merged && !view.merged.rare ? " of single threads" : ""} are in \u201c(rare stacks)\u201d`);
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
		tab.textContent = { samples: "CPU", calls: "Calls", waits: "Waits", tail: "Slow calls" }[view.kind];
		tab.addEventListener("click", () => go({ view: i }));
		$("views").append(tab);
	});
}

function setTheme(name) {
	document.documentElement.dataset.theme = name;
	$("theme").textContent = name === "dark" ? "Light" : "Dark";
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
