// SPDX-License-Identifier: BSD-2-Clause
/* Keys, pointer and menu: each changes the state of page.js with go(). */
"use strict";

/* Moves from a function to an adjacent function. */
function zoomTo(frame) {
	if (state.mode === "function") {
		if (frame.up && frame.code >= 0)
			go({ function: frame.code >> 1 });
		return;
	}
	go({ path: frame.path });
	graph.chosen = frame;
	graph.draw();
}

function back() {
	if (state.mode === "function")
		go({ mode: START.mode });
	else if (state.mode === "time" && state.window.length)
		go({ window: [] });
	else if (state.path.length)
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
	l: () => hasLanes && go({ mode: "time" }),
	z: () => state.mode === "time" && state.range.length && go({ window: state.range }),
	w: () => recording.why && go({ mode: "why" }),
	r: () => isGraph() && go({ reversed: !state.reversed }),
	d: () => $("theme").click(),
	m: () => isGraph() && openMenu(graph.chosen || graph.zoomed, ...graph.placeOf(graph.chosen || graph.zoomed)),
	Escape: back,
	/* Do not leave the page. */
	Backspace: () => history.state?.steps > 0 && history.back(),
};

function onKey(event) {
	const { target } = event;
	if (event.ctrlKey || event.metaKey || event.altKey || $("help").open || !$("menu").hidden)
		return;
	if (target === $("search")) {
		if (event.key === "Escape")
			$("canvas").focus();
		return;
	}
	if (target.tagName === "SELECT")
		return;
	if (event.key.startsWith("Arrow") && isGraph())
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
		button.addEventListener("click", () => button.dataset.mode !== state.mode && go({ mode: button.dataset.mode }));
	$("unhide").addEventListener("click", () => go({ drop: [], merge: [], collapsed: false }));
	$("wakers").addEventListener("click", () => go({ wakers: !state.wakers }));
	$("idle").addEventListener("click", () => go({ idle: !state.idle }));
	$("filter").addEventListener("input", () => showScopes(shownView()));
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
	$("reset").addEventListener("click", back);
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
		for (const one of !isGraph() || graph.whole ? [] : state.mode === "function" ? [graph, callers] : [graph]) {
			one.layOut();
			one.draw();
		}
		strips.draw();
	}).observe($("graph"));
	new ResizeObserver(() => lanes.draw()).observe($("lanes"));
	$("lanes").addEventListener("scroll", () => lanes.redraw(), { passive: true });
	$("range").addEventListener("click", () => go({ range: [] }));
	$("lanes-canvas").addEventListener("pointermove", (event) => {
		const { lane, call } = lanes.laneAt(event);
		if (lane)
			tip.show(call || label(`${lane.name}, of ${lane.process}`), call ? label(lane.name) : lanes.textAt(lane, lanes.timeAt(event)), event);
		else
			tip.hide();
	});
	$("lanes-canvas").addEventListener("wheel", (event) => {
		const isZoom = event.ctrlKey || event.metaKey, by = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
		if (!isZoom && !by)
			return;
		event.preventDefault();
		go({ window: lanes.windowAt(lanes.timeAt(event), isZoom ? Math.exp(-event.deltaY / 300) : 1, isZoom ? 0 : by / lanes.width) }, false);
	}, { passive: false });
	$("lanes-canvas").addEventListener("mouseleave", () => tip.hide());
	listenToPointer(graph);
	listenToPointer(callers);
	$("rows").addEventListener("contextmenu", (event) => {
		const key = event.target.closest("tr[data-key]")?.dataset.key;
		if (key) {
			event.preventDefault();
			openMenu(Frame.ofFunction(scope, Number(key), false), event.clientX, event.clientY);
		}
	});
}

function listenToPointer(of) {
	const { canvas, area } = of, frameAt = (event) => of.boxAt(event)?.frame || null;
	let drag = null;
	const point = (frame, event) => {
		if (frame && !drag?.isMoved)
			tip.show(label(nameOf(frame)), numbersOf(frame), event);
		else
			tip.hide();
		if (frame === of.pointed)
			return;
		of.pointed = frame;
		of.redraw();
		describe(frame || graph.chosen || graph.zoomed);
	};
	area.addEventListener("scroll", () => of.redraw(), { passive: true });
	canvas.addEventListener("pointerdown", (event) => drag = event.button === 0 ? { x: event.clientX, y: event.clientY, isMoved: false } : null);
	canvas.addEventListener("pointermove", (event) => {
		if (event.isTrusted && !event.buttons)
			drag = null; /* the button was released outside of the window */
		if (drag && (drag.isMoved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4)) {
			event.isTrusted && canvas.setPointerCapture(event.pointerId);
			of.pan((drag.x - event.clientX) / canvas.clientWidth);
			area.scrollTop += drag.y - event.clientY;
			Object.assign(drag, { x: event.clientX, y: event.clientY });
		}
		point(frameAt(event), event);
	});
	canvas.addEventListener("mouseleave", () => point(null));
	canvas.addEventListener("wheel", (event) => {
		if (!event.ctrlKey && !event.metaKey)
			return;
		event.preventDefault();
		of.widen(event, Math.exp(-event.deltaY / 300));
	}, { passive: false });
	canvas.addEventListener("click", (event) => {
		const frame = !drag?.isMoved && frameAt(event);
		drag = null;
		if (frame)
			zoomTo(frame);
	});
	canvas.addEventListener("contextmenu", (event) => {
		const frame = frameAt(event);
		event.preventDefault();
		if (frame)
			openMenu(frame, event.clientX, event.clientY);
	});
}

/* ---- actions on a frame ---- */

function copy(text) {
	navigator.clipboard.writeText(text).catch((error) => $("numbers").textContent = `cannot copy: ${error.message}`);
}

/* The frame and its callers. */
function stackOf(frame) {
	const names = [];
	for (let at = frame; at?.isNamed; at = at.up)
		names.push(nameOf(at));
	return (frame.leaves ? names : names.reverse()).join("\n");
}

function openMenu(frame, x, y) {
	const { view } = scope, key = frame.code >> 1, isFunction = frame.isNamed && frame.code >= 0, name = short(nameOf(frame));
	const choices = [];
	if (state.mode !== "table" && state.mode !== "function")
		choices.push(["Zoom to it", () => zoomTo(frame)]);
	if (isFunction)
		choices.push([`Callers and callees of ${name}`, () => go({ mode: "function", function: key })],
			[`Hide ${name}: its callers get what it used`, () => go({ merge: [...state.merge, key] })],
			[`Leave out all stacks with ${name}`, () => go({ drop: [...state.drop, key] })]);
	choices.push([`${state.collapsed ? "Show" : "Collapse"} recursion`, () => go({ collapsed: !state.collapsed })],
		["Copy the name", () => copy(nameOf(frame))]);
	if (frame.up && frame.isNamed)
		choices.push(["Copy the stack", () => copy(stackOf(frame))]);
	if (isFunction && view.fileOf(frame.code))
		choices.push(["Copy the source file", () => copy(view.fileOf(frame.code))]);
	if (isFunction && view.lineOf(frame.code))
		choices.push([`Copy the line with most ${view.kind}`, () => copy(view.lineOf(frame.code))]);
	tip.hide();
	menu.open(choices, x, y);
}

function follow() {
	const next = stateOf(location.hash);
	if (fragmentOf(next) !== fragmentOf(state)) {
		state = next;
		show();
	}
}

/* On paper: light theme, and all rows. */
function print(isOn) {
	print.theme ??= document.documentElement.dataset.theme;
	setTheme(isOn ? "light" : print.theme);
	if (!isOn)
		print.theme = undefined;
	graph.whole = isOn;
	show();
}
