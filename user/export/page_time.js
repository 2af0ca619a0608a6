// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values over time: the values of a view in each part of the recording ("slot"), a strip of them above the graph, and a
 * timeline with a lane for each thread. A selected time range restricts all shown values.
 */
"use strict";

const LANE = 22;
const NAMES = 210; /* px at the left of the lanes */
const SLICE = 13; /* px of a call in a lane */
const SLICE_ROWS = 8;
const WINDOW_NS = 100; /* the shortest time that fills the width */
const RUNNING = "running";
/* The states, from the bottom of a lane upwards. A thread that sleeps has an empty lane. */
const LANE_STATES = [RUNNING, "runnable", "lock", "futex", "disk", "stopped", "traced", "other"];

/* What put_slots() in html.c writes. */
class Slots {
	constructor(raw) {
		const numbers = new Numbers(bytesOf(raw.slots)), count = raw.entries;
		Object.assign(this, { count, ns: raw.slotNs, from: raw.slotFromNs, slot: new Int32Array(count), node: new Int32Array(count), state: new Uint8Array(count),
			values: [new Float64Array(count), new Float64Array(count)] });
		let slot = 0, node = 0;
		for (let i = 0; i < count; i++) {
			this.slot[i] = slot += numbers.next();
			this.node[i] = node += numbers.nextSigned();
			if (raw.states)
				this.state[i] = numbers.next();
			this.values[0][i] = numbers.next();
			this.values[1][i] = this.values[0][i] * raw.period + numbers.nextSigned();
		}
	}
	/* The number of slots. */
	get end() {
		return (this.slot[this.count - 1] ?? 0) + 1;
	}
	timeOf(slot) {
		return this.from + slot * this.ns;
	}
	/* Returns the own values of each node between two times, and by state. */
	within([from, to], view) {
		const lists = (count) => Array.from({ length: count }, () => new Float64Array(view.count));
		const self = lists(2), stateSelf = lists(view.states?.length || 0);
		for (let i = 0; i < this.count; i++) {
			const at = this.timeOf(this.slot[i]);
			if (at + this.ns <= from || at >= to)
				continue;
			self[0][this.node[i]] += this.values[0][i];
			self[1][this.node[i]] += this.values[1][i];
			if (stateSelf.length)
				stateSelf[this.state[i]][this.node[i]] += this.values[1][i];
		}
		return { self, stateSelf };
	}
}

/* The longest calls of each thread, as html_slices.c writes them. A nested call is one row deeper. */
class Slices {
	constructor(raw) {
		const numbers = new Numbers(bytesOf(raw.data));
		Object.assign(this, { names: raw.names, all: raw.all, count: raw.count, threads: new Map() });
		let thread = 0, begin = 0, calls = [], open = [];
		for (let i = 0; i < raw.count; i++) {
			if (numbers.next() || !i) {
				this.threads.set(raw.threads[thread++], calls = []);
				open = [];
			}
			begin += numbers.nextSigned();
			const end = begin + numbers.next();
			while (open.length && open.at(-1) <= begin)
				open.pop();
			calls.push({ begin, end, depth: open.length, name: numbers.next() });
			open.push(end);
		}
		for (const list of this.threads.values())
			list.rows = Math.min(list.reduce((most, call) => Math.max(most, call.depth + 1), 0), SLICE_ROWS);
	}
}

/* Formats a time range for an address: seconds. */
function rangeOf(words, names) {
	const [from, to] = names.map((key) => /^[0-9]{1,7}(\.[0-9]{1,9})?$/.test(words.get(key)) ? 1e9 * Number(words.get(key)) : NaN);
	return from < to ? [from, to] : [];
}

function seconds(ns) {
	return `${Number((ns / 1e9).toFixed(9))}`;
}

/* The values of a view in each slot, by colour. */
function strip(view, root) {
	const { slots } = view, inside = new Uint8Array(view.count), colours = new Map(), known = new Map();
	inside[root] = 1;
	for (let node = root + 1; node < view.count; node++)
		inside[node] = inside[Math.max(view.parent[node], 0)] && view.parent[node] >= 0;
	for (let i = 0; i < slots.count; i++) {
		const node = slots.node[i];
		if (!inside[node])
			continue;
		const what = view.states ? slots.state[i] : view.kindOf(view.code[node]);
		if (!known.has(what)) {
			const colour = view.states ? colourOfStates(view, view.states.map((_, state) => Number(state === what)), "") : colourOf(what, "");
			colours.set(colour, colours.get(colour) || new Float64Array(slots.end));
			known.set(what, colours.get(colour));
		}
		known.get(what)[slots.slot[i]] += slots.values[view.weight][i];
	}
	return colours;
}

/* Returns the lane of a thread, which all views share; a process has none. */
function laneOf(lanes, view, node) {
	const up = view.parent[node];
	if (!view.isGroup(up))
		return undefined;
	const name = view.nameOf(view.code[node]), process = view.nameOf(view.code[up]), key = `${process}\0${name}`;
	if (!lanes.has(key))
		lanes.set(key, { name, process, states: new Map(), total: 0 });
	return lanes.get(key);
}

/* The lanes of the threads of views: name, and the ns in each state in each slot. */
function lanesOf(views) {
	const used = views.filter((view) => view.slots && !view.isCalls), ns = Math.max(...used.map((view) => view.slots.ns));
	const from = Math.min(...used.map((view) => view.slots.from));
	const lanes = new Map(), slotCount = Math.max(...used.map((view) => Math.ceil((view.slots.timeOf(view.slots.end) - from) / ns)));
	for (const view of used) {
		const laneOfNode = new Array(view.count);
		for (let node = 1; node < view.count; node++)
			laneOfNode[node] = view.isGroup(node) ? laneOf(lanes, view, node) : laneOfNode[view.parent[node]];
		for (let i = 0; i < view.slots.count; i++) {
			const lane = laneOfNode[view.slots.node[i]], state = view.states ? view.states[view.slots.state[i]] : RUNNING;
			if (!lane || !LANE_STATES.includes(state))
				continue;
			const at = Math.floor((view.slots.timeOf(view.slots.slot[i]) - from) / ns);
			if (!lane.states.has(state))
				lane.states.set(state, new Float64Array(slotCount));
			lane.states.get(state)[at] += view.slots.values[1][i];
			lane.total += view.slots.values[1][i];
		}
	}
	return { ns, from, slotCount, all: [...lanes.values()].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1)) };
}

function colourOfLane(state) {
	return shaded(state === RUNNING ? COLOURS.kernel : STATE_COLOURS[state], "");
}

/* A canvas with time from left to right, on which the user can select a range. */
class TimeGraph {
	constructor(canvas, area, tall, left, brushed) {
		Object.assign(this, { canvas, area, tall, left, range: [], from: 0, to: 1, pending: 0 });
		this.context = canvas.getContext("2d");
		let from = null;
		canvas.addEventListener("pointerdown", (event) => from = event.button === 0 && this.timeAt(event) >= this.from ? this.timeAt(event) : null);
		canvas.addEventListener("pointermove", (event) => {
			if (event.isTrusted && !event.buttons)
				from = null; /* the button was released outside of the window */
			if (from === null)
				return;
			event.isTrusted && canvas.setPointerCapture(event.pointerId);
			this.range = [from, Math.max(this.timeAt(event), this.from)].sort((a, b) => a - b);
			this.redraw();
		});
		canvas.addEventListener("pointerup", (event) => {
			const isBrushed = from !== null && Math.abs(this.xOf(from) - this.xOf(this.timeAt(event))) > 3;
			from = null;
			brushed(isBrushed ? this.range : []);
		});
	}
	get width() {
		return this.area.clientWidth - this.left;
	}
	xOf(ns) {
		return this.left + (ns - this.from) / (this.to - this.from) * this.width;
	}
	timeAt(event) {
		const x = event.clientX - this.canvas.getBoundingClientRect().left;
		return this.from + Math.min((x - this.left) / this.width, 1) * (this.to - this.from);
	}
	redraw() {
		this.pending ||= requestAnimationFrame(() => {
			this.pending = 0;
			this.draw();
		});
	}
	/* Clears the canvas. Returns its height; 0: it is not visible. */
	begin(height) {
		const { context, canvas, area } = this, ratio = window.devicePixelRatio || 1;
		if (!area.clientWidth || !height)
			return 0;
		canvas.width = Math.round(area.clientWidth * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.height = `${height}px`;
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.font = FONT;
		context.textBaseline = "middle";
		return height;
	}
	drawAxis(y) {
		const { context } = this, step = niceStep((this.to - this.from) / Math.max(this.width / 120, 1));
		context.fillStyle = isDark() ? "#9aa1ac" : "#666c75";
		for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
			context.fillRect(this.xOf(at), y - 4, 1, 4);
			context.fillText(!at ? "0" : step < at / 500 ? `${seconds(at)} s` : time(at), this.xOf(at) + 4, y - 2);
		}
	}
	drawRange(height) {
		const { context, range } = this, [from, to] = range.map((at) => Math.min(Math.max(this.xOf(at), this.left), this.left + this.width));
		if (!range.length)
			return;
		context.fillStyle = isDark() ? "rgb(22 24 28 / 0.72)" : "rgb(251 251 250 / 0.78)";
		context.fillRect(this.left, 0, from - this.left, height);
		context.fillRect(to, 0, this.left + this.width - to, height);
		context.fillStyle = isDark() ? "#7fabf2" : "#2f62b5";
		context.fillRect(from, 0, 1, height);
		context.fillRect(to - 1, 0, 1, height);
	}
}

/* 1, 2 or 5 times a power of ten. */
function niceStep(ns) {
	const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
	return power * [1, 2, 5, 10].find((factor) => factor * power >= ns);
}

/* The values of a whole view, above its graph. */
class Strip extends TimeGraph {
	show(view, root, [from, to], range) {
		const key = [view.kind, view.weight, root, isDark()].join();
		if (this.key !== key)
			Object.assign(this, { key, colours: strip(view, root) });
		Object.assign(this, { slots: view.slots, from, to, range });
		this.draw();
	}
	draw() {
		const height = this.begin(this.area.clientHeight), { context } = this;
		if (!height || !this.colours)
			return;
		const lists = [...this.colours], slots = lists[0]?.[1].length || 0, tall = height - 12;
		const sums = Float64Array.from({ length: slots }, (_, i) => lists.reduce((sum, [, of]) => sum + of[i], 0));
		const most = sums.reduce((a, b) => Math.max(a, b), 0), heights = new Float64Array(slots);
		for (const [colour, values] of lists) {
			context.fillStyle = colour;
			for (let i = 0; i < slots; i++) {
				const its = values[i] / most * tall, x = this.xOf(this.slots.timeOf(i));
				if (its)
					context.fillRect(x, tall - heights[i] - its, Math.max(this.xOf(this.slots.timeOf(i + 1)) - x, 0.5), its);
				heights[i] += its;
			}
		}
		this.drawAxis(height - 4);
		this.drawRange(height);
	}
}

/* A lane for each thread. */
class Lanes extends TimeGraph {
	/* window: the time that fills the width; empty: all, without calls. */
	show(lanes, all, window, range, slow, slices) {
		Object.assign(this, { lanes, all, range, slow, at: new Map(), tops: [] });
		[this.from, this.to] = window.length ? window : all;
		this.slices = window.length ? slices : null;
		let top = 0;
		for (const lane of lanes.all) {
			this.at.set(lane.name, top);
			this.tops.push(top);
			top += LANE + SLICE * (this.slices?.threads.get(lane.name)?.rows || 0);
		}
		this.tops.push(top);
		this.tall.style.height = `${top + 20}px`;
		this.draw();
	}
	/* Returns a window that is this many times narrower, around a time; moved by a part of its width. */
	windowAt(ns, factor, by) {
		const [first, last] = this.all, length = Math.min(Math.max((this.to - this.from) / factor, WINDOW_NS), last - first);
		const from = ns - (ns - this.from) * length / (this.to - this.from) + by * length, begin = Math.min(Math.max(from, first), last - length);
		return length < last - first ? [Math.round(begin), Math.round(begin + length)] : [];
	}
	/* Returns the first lane that ends below a place. */
	indexAt(y) {
		const index = this.tops.findIndex((top) => top > y);
		return index < 0 ? this.lanes.all.length : index - 1;
	}
	/* Returns the lane at the pointer, and the call there. */
	laneAt(event) {
		const y = event.clientY - this.canvas.getBoundingClientRect().top + this.area.scrollTop, index = this.indexAt(y), lane = this.lanes.all[index];
		const depth = Math.floor((y - this.tops[index] - LANE) / SLICE), at = this.timeAt(event);
		const call = lane && depth >= 0 && this.slices?.threads.get(lane.name)?.find((one) => one.depth === depth && one.begin <= at && one.end > at);
		return { lane, call: call ? `${label(this.slices.names[call.name])}, ${time(call.end - call.begin)}` : null };
	}
	/* Describes a lane at a time. */
	textAt(lane, at) {
		const { from, ns, slotCount } = this.lanes, slot = Math.min(Math.max(Math.floor((at - from) / ns), 0), slotCount - 1);
		const parts = [...lane.states].map(([state, of]) => [state, of[slot]]).filter(([, its]) => its > 0).sort((a, b) => b[1] - a[1]);
		const isHere = (one) => one.thread === lane.name && one.to > from + slot * ns && one.from < from + (slot + 1) * ns;
		const slow = this.slow.find(isHere), request = this.slow.find((one) => one.spans.some(isHere));
		return [`${seconds(from + slot * ns)} s`, ...parts.map(([state, its]) => `${state} ${share(its, ns)}`),
			parts.length ? "" : "sleeping", request && `works for a slow call of ${label(request.thread)}`, slow && `slow call of ${time(slow.to - slow.from)}: ${label(recording.why.causes[slow.cause])}`]
			.filter(Boolean).join(" \u00b7 ");
	}
	draw() {
		const { area, context } = this, height = this.begin(area.clientHeight), top = area.scrollTop;
		if (!height || !this.lanes)
			return;
		context.save();
		for (let i = this.indexAt(top); i < this.lanes.all.length && this.tops[i] < top + height; i++) {
			this.drawLane(this.lanes.all[i], this.tops[i] - top);
			this.drawCalls(this.slices?.threads.get(this.lanes.all[i].name) || [], this.tops[i] - top + LANE);
		}
		context.restore();
		this.drawAxis(height - 4);
		this.drawRange(height);
		context.save();
		context.beginPath();
		context.rect(this.left, 0, this.width, height);
		context.clip();
		for (const call of this.slow.filter((one) => this.at.has(one.thread) && one.isIn(this.range) && one.isIn([this.from, this.to])))
			this.drawSlow(call, top);
		context.restore();
	}
	/* Skips calls within the last pixel of their row, which would not be visible. */
	drawCalls(calls, y) {
		const { context, left } = this, drawn = new Float64Array(SLICE_ROWS), right = left + this.width;
		for (const { begin, end, depth, name } of calls) {
			if (end <= this.from || begin >= this.to || depth >= SLICE_ROWS)
				continue;
			const x = Math.max(this.xOf(begin), left), width = Math.max(Math.min(this.xOf(end), right) - x, 0.5);
			if (x + width < drawn[depth] + 0.3)
				continue;
			drawn[depth] = x + width;
			context.fillStyle = colourOf(0, this.slices.names[name]);
			context.fillRect(x, y + depth * SLICE, width - (width > 3 ? 1 : 0), SLICE - 1);
			if (width > 28) {
				context.fillStyle = isDark() ? "#f1f2f4" : "#1d2024";
				context.fillText(graph.fit(this.slices.names[name], width - 8), x + 4, y + depth * SLICE + SLICE / 2);
			}
		}
	}
	/* Draws a slow call, with the wake-up that ended its longest wait, and the threads that worked for it. */
	drawSlow({ thread, waker, from, to, woken, spans }, top) {
		this.context.fillStyle = this.context.strokeStyle = isDark() ? "#ff7fbd" : "#c2185b";
		this.drawBar(thread, from, to, top);
		this.drawWaking(waker, thread, woken, top);
		for (const span of spans.filter((one) => this.at.has(one.thread))) {
			this.drawBar(span.thread, span.from, span.to, top);
			this.drawWaking(span.waker, span.thread, span.from, top);
		}
	}
	drawBar(thread, from, to, top) {
		const x = this.xOf(from);
		this.context.fillRect(x, this.at.get(thread) - top + 1, Math.max(this.xOf(to) - x, 2), 2);
	}
	drawWaking(waker, thread, at, top) {
		const { context } = this, y = this.at.get(thread) - top, x = this.xOf(at);
		if (!this.at.has(waker))
			return;
		const below = this.at.get(waker) - top, head = below > y ? y + LANE : y, away = below > y ? 4 : -4;
		context.beginPath();
		context.moveTo(x, below + LANE / 2);
		context.lineTo(x, head);
		context.moveTo(x - 3, head + away);
		context.lineTo(x, head);
		context.lineTo(x + 3, head + away);
		context.stroke();
	}
	drawLane(lane, y) {
		const { context } = this, { slotCount, ns, from } = this.lanes, tall = LANE - 5;
		const first = Math.max(Math.floor((this.from - from) / ns), 0), last = Math.min(Math.ceil((this.to - from) / ns), slotCount);
		const heights = new Float64Array(slotCount), bottom = y + LANE - 2;
		context.fillStyle = isDark() ? "#f1f2f4" : "#1d2024";
		context.save();
		context.beginPath();
		context.rect(0, y, this.left - 8, LANE);
		context.clip();
		context.fillText(label(lane.name), 8, y + LANE / 2);
		context.restore();
		context.fillStyle = isDark() ? "#343941" : "#dfe1e4";
		context.fillRect(this.left, bottom, this.width, 1);
		for (const state of LANE_STATES) {
			const values = lane.states.get(state);
			if (!values)
				continue;
			context.fillStyle = colourOfLane(state);
			for (let i = first; i < last; i++) {
				const its = Math.min(values[i] / ns, 1) * tall, x = Math.max(this.xOf(from + i * ns), this.left);
				if (its > 0.05)
					context.fillRect(x, bottom - heights[i] - its, Math.max(this.xOf(from + (i + 1) * ns) - x, 0.6), its);
				heights[i] = Math.min(heights[i] + its, tall);
			}
		}
	}
}
