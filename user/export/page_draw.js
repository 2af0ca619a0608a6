// SPDX-License-Identifier: BSD-2-Clause
/*
 * Draws a graph of frames on a canvas. Only frames that are wide enough to see are laid out, and only rows on the screen
 * are drawn, so drawing time depends neither on the number of stacks nor on their depth.
 */
"use strict";

const ROW = 20;
const NARROW = 0.7; /* px: narrower frames are drawn together */
const DEEP = 1000; /* rows above the frame that is zoomed to */
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
/* For each kind in KINDS: hue, saturation, and lightness in the light and the dark theme. */
const COLOURS = {
	user: [32, 78, 73, 34],
	kernel: [211, 62, 76, 36],
	jit: [145, 42, 70, 29],
	unknown: [40, 6, 80, 33],
	inlined: [276, 46, 82, 39],
	group: [215, 16, 87, 26],
	recorder: [338, 64, 78, 38],
	waker: [176, 44, 74, 32],
	rare: [40, 3, 88, 28],
};

/* The same for each state of waits. */
const STATE_COLOURS = {
	sleeping: [208, 48, 78, 36],
	lock: [3, 62, 77, 37],
	futex: [322, 44, 79, 37],
	disk: [30, 82, 71, 36],
	runnable: [132, 40, 70, 30],
	stopped: [52, 60, 72, 32],
	traced: [276, 40, 80, 38],
	idle: [215, 6, 84, 28],
	other: [40, 6, 76, 34],
};

function isDark() {
	return document.documentElement.dataset.theme === "dark";
}

function colourOf(kind, name) {
	return shaded(COLOURS[KINDS[kind]], kind === 5 ? "" : name);
}

/* Returns the state with the most time. */
function colourOfStates(view, states, name) {
	return shaded(STATE_COLOURS[view.states[states.indexOf(Math.max(...states))]] || STATE_COLOURS.other, name);
}

function shaded([hue, saturation, light, dark], name) {
	let hash = 0;
	for (let i = 0; i < Math.min(name.length, 64); i++)
		hash = (hash * 31 + name.charCodeAt(i)) | 0;
	/* Adjacent frames differ slightly. */
	const shade = !name ? 0 : (hash >>> 3) % 7 - 3;
	return `hsl(${hue + shade * 1.6} ${saturation}% ${(isDark() ? dark : light) + shade}%)`;
}

/* Red frames grew, blue ones shrank; stronger colours mean larger changes. No colour: the change may be noise. */
function colourOfChange(view, values, frame) {
	const [before, after] = values, grey = isDark() ? "hsl(215 6% 30%)" : "hsl(40 10% 88%)";
	if (!view.isBeyondNoise(values, frame))
		return grey;
	const strength = before && after ? Math.min(Math.abs(Math.log2(after / before)), 1) : 1;
	const light = isDark() ? 32 + 6 * strength : 86 - 22 * strength;
	return `hsl(${after > before ? 6 : 214} ${Math.round(30 + 50 * strength)}% ${light}%)`;
}

function colourOfFrame(frame, name) {
	const { view } = frame.scope;
	if (view.states && frame.isNamed && frame.code >= 0)
		return colourOfStates(view, frame.states, name);
	if (!view.isDiff)
		return colourOf(frame.isNamed ? view.kindOf(frame.code) : 5, name);
	/* The change of the function itself, as in flamegraph.pl; for slow calls, with its callees; reversed: of all values. */
	return colourOfChange(view, frame.leaves || view.certain ? frame.total : frame.self, frame);
}

class Graph {
	constructor(canvas, area, tall) {
		Object.assign(this, { canvas, area, tall });
		this.context = canvas.getContext("2d");
		this.rows = [];
		this.isUp = false;
		this.isMatch = null;
		this.pointed = null;
		this.chosen = null;
		this.widths = new Map();
		this.forms = new Map(); /* shorter forms of names */
		this.whole = false; /* draw all rows, for printing */
		this.from = 0; /* the part of the zoomed frame that fills the width: from 0 to 1 */
		this.to = 1;
		this.pending = 0;
	}
	/* zoomed: the frame that fills the width. */
	show(zoomed, isUp) {
		const isMoved = zoomed !== this.zoomed || isUp !== this.isUp;
		Object.assign(this, { zoomed, isUp, pointed: null });
		if (isMoved)
			Object.assign(this, { from: 0, to: 1 });
		this.layOut();
		if (isMoved)
			this.scrollToZoomed();
		this.draw();
	}
	/* Also shows two of its callers. */
	scrollToZoomed() {
		const base = Math.max(this.zoomed.depth - 2, 0), { area } = this;
		if (this.isUp)
			area.scrollTop = this.yOf(base) + ROW - area.clientHeight;
		else
			area.scrollTop = (this.zoomed.depth + 1) * ROW > area.clientHeight / 2 ? base * ROW : 0;
	}
	layOut() {
		const width = this.area.clientWidth, ancestors = [];
		this.rows = [];
		for (let at = this.zoomed.up; at; at = at.up)
			ancestors.push(at);
		for (const frame of ancestors.reverse())
			this.rows.push([{ frame, x: 0, width, above: true }]);
		if (this.zoomed.width > 0)
			this.place(width);
		const height = this.rows.length * ROW;
		this.tall.style.height = `${this.isUp && !this.whole ? Math.max(height, this.area.clientHeight) : height}px`;
	}
	place(width) {
		const whole = width / (this.to - this.from), scale = whole / this.zoomed.width;
		const pending = [{ frame: this.zoomed, x: -this.from * whole, width: whole }];
		for (let box = pending.pop(); box; box = pending.pop()) {
			const { frame } = box;
			let x = box.x;
			(this.rows[frame.depth] ??= []).push(box);
			if (frame.depth - this.zoomed.depth === DEEP) {
				box.text = "deeper: zoom in";
				continue;
			}
			for (let i = 0; i < frame.kids.length; i++) {
				const kid = frame.kids[i], its = kid.width * scale;
				if (its < NARROW) {
					this.placeRest(frame, i, x, scale);
					break;
				}
				if (x < width && x + its > 0)
					pending.push({ frame: kid, x, width: its });
				x += its;
			}
		}
	}
	/* Frames are sorted by width: all following ones are narrow. */
	placeRest(frame, from, x, scale) {
		const rest = frame.kids.slice(from);
		const width = rest.reduce((sum, kid) => sum + kid.width, 0) * scale;
		if (width >= 1)
			(this.rows[frame.depth + 1] ??= []).push({ frame: null, x, width,
				text: `${count(rest.length, "narrow frame")}` });
	}
	/* Widens the graph at the pointer; factor below 1: narrows it. */
	widen(event, factor) {
		const place = this.canvas.getBoundingClientRect(), length = Math.min((this.to - this.from) / factor, 1);
		const x = (event.clientX - place.left) / place.width;
		if (length < 1e-9)
			return;
		this.move(this.from + x * (this.to - this.from - length), length);
	}
	/* Moves by a part of the width. */
	pan(by) {
		const length = this.to - this.from;
		this.move(this.from + by * length, length);
	}
	move(from, length) {
		this.from = Math.min(Math.max(from, 0), 1 - length);
		this.to = this.from + length;
		this.layOut();
		this.redraw();
	}
	yOf(row) {
		return this.isUp ? this.tall.offsetHeight - (row + 1) * ROW : row * ROW;
	}
	redraw() {
		this.pending ||= requestAnimationFrame(() => {
			this.pending = 0;
			this.draw();
		});
	}
	draw() {
		const { context, canvas, area } = this, ratio = window.devicePixelRatio || 1;
		const width = area.clientWidth;
		const height = this.whole ? Math.min(this.tall.offsetHeight, 8000) : area.clientHeight;
		const top = this.whole ? 0 : area.scrollTop;
		if (!width || !height)
			return;
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.height = `${height}px`;
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.font = FONT;
		context.textBaseline = "middle";
		context.direction = "ltr";
		this.ink = isDark() ? "#f1f2f4" : "#1d2024";
		for (let row = 0; row < this.rows.length; row++) {
			const y = this.yOf(row) - top;
			if (y > -ROW && y < height)
				for (const box of this.rows[row] || [])
					this.drawBox(box, y);
		}
	}
	drawBox(box, y) {
		const { context } = this, { frame } = box, name = frame ? nameOf(frame) : "";
		const matches = frame?.isNamed && this.isMatch?.(frame.code);
		const left = Math.max(box.x, 0), width = Math.min(box.x + box.width, this.area.clientWidth) - left;
		context.globalAlpha = box.above ? 0.55 : this.isMatch && !matches ? 0.4 : 1;
		context.fillStyle = matches ? (isDark() ? "#a3256b" : "#f28fc0") :
			frame ? colourOfFrame(frame, name) :
			isDark() ? "#3a3f47" : "#e3e3e0";
		/* A gap between adjacent frames, if there is space. */
		context.fillRect(left, y, Math.max(width - (width > 3 ? 1 : 0), 0.5), ROW - 1);
		if (frame && (frame === this.pointed || frame === this.chosen)) {
			context.globalAlpha = 1;
			context.strokeStyle = this.ink;
			context.lineWidth = frame === this.chosen ? 2 : 1;
			context.strokeRect(left + 1, y + 1, Math.max(width - 3, 1), ROW - 3);
		}
		if (width > 28)
			this.drawText(box.text || name, left + 5, y + ROW / 2, width - 11);
	}
	drawText(name, x, y, room) {
		const shown = this.fit(name, room);
		if (!shown)
			return;
		this.context.globalAlpha = Math.max(this.context.globalAlpha, 0.75);
		this.context.fillStyle = this.ink;
		this.context.fillText(shown, x, y);
	}
	widthOf(text) {
		let width = this.widths.get(text);
		if (width === undefined) {
			if (this.widths.size > 20000)
				this.widths.clear();
			this.widths.set(text, width = this.context.measureText(text).width);
		}
		return width;
	}
	formsOf(name) {
		let forms = this.forms.get(name);
		if (!forms) {
			if (this.forms.size > 5000)
				this.forms.clear();
			this.forms.set(name, forms = shorterNames(label(name)));
		}
		return forms;
	}
	fit(name, room) {
		const forms = this.formsOf(name), found = forms.find((form) => this.widthOf(form) <= room);
		if (found)
			return found;
		const text = forms.at(-1), width = this.widthOf(text);
		for (let keep = Math.floor(text.length * room / width); keep > 1; keep--) {
			const cut = `${text.slice(0, keep)}\u2026`;
			if (this.context.measureText(cut).width <= room)
				return cut;
		}
		return "";
	}
	boxAt(event) {
		const place = this.canvas.getBoundingClientRect();
		const x = event.clientX - place.left, y = event.clientY - place.top + this.area.scrollTop;
		const row = Math.floor((this.isUp ? this.tall.offsetHeight - y : y) / ROW);
		return (this.rows[row] || []).find((box) => x >= box.x && x < box.x + box.width);
	}
	/* The rectangle of a frame in the window. */
	placeOf(frame) {
		const place = this.canvas.getBoundingClientRect(), box = (this.rows[frame.depth] || []).find((one) => one.frame === frame);
		return [place.left + Math.max(box?.x || 0, 0) + 8, place.top + this.yOf(frame.depth) - this.area.scrollTop + ROW];
	}
	/* Returns the next frame in a direction of the screen. */
	neighbour(frame, key) {
		const outward = this.isUp ? "ArrowUp" : "ArrowDown", inward = this.isUp ? "ArrowDown" : "ArrowUp";
		const row = (this.rows[frame.depth] || []).filter((box) => box.frame).sort((a, b) => a.x - b.x);
		const at = row.findIndex((box) => box.frame === frame);
		if (key === inward)
			return frame.up || frame;
		if (key === outward)
			return (this.rows[frame.depth + 1] || []).find((box) => box.frame?.up === frame)?.frame || frame;
		return row[at + (key === "ArrowRight" ? 1 : -1)]?.frame || frame;
	}
	reveal(frame) {
		const y = this.yOf(frame.depth), { area } = this;
		if (y < area.scrollTop)
			area.scrollTop = y;
		else if (y + ROW > area.scrollTop + area.clientHeight)
			area.scrollTop = y + ROW - area.clientHeight;
	}
}

function nameOf(frame) {
	return frame.isNamed ? frame.scope.view.nameOf(frame.code) : frame.scope.label;
}
