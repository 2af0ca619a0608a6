// SPDX-License-Identifier: BSD-2-Clause
/*
 * Shows why calls were slow, with the sentences of `xprof explain`: causes, contended locks, and the times of slow calls
 * (html_why.c).
 */
"use strict";

class SlowCall {
	constructor([cause, from, to, thread, waker, woken, spans]) {
		Object.assign(this, { cause, from, to, thread, waker, woken });
		this.spans = spans.map(([its, by, begin, end]) => ({ thread: its, waker: by, from: begin, to: end }));
	}
	isIn(range) {
		return !range.length || this.to > range[0] && this.from < range[1];
	}
}

class Why {
	constructor(area, raw, open) {
		Object.assign(this, { area, raw, open, slow: (raw?.slow || []).map((one) => new SlowCall(one)) });
	}
	add(tag, text, to = this.area) {
		const element = to.appendChild(document.createElement(tag));
		element.textContent = text;
		return element;
	}
	show(range) {
		const { area, raw } = this;
		area.replaceChildren();
		raw.requests.filter(Boolean).forEach((text) => this.add("p", label(text)));
		this.add("h2", "Causes");
		const list = this.add("ol", "");
		raw.causes.forEach((text, cause) => this.addCause(list, text, this.slow.filter((one) => one.cause === cause), range));
		if (raw.more)
			this.add("p", `and ${raw.more} more, which xprof explain --json shows`);
		if (raw.locks.length)
			this.addLocks();
	}
	/* The slowest of the calls with a cause is first. A selected time contains some of them. */
	addCause(list, text, calls, range) {
		const item = this.add("li", ""), shown = calls.filter((one) => one.isIn(range)), slowest = shown[0];
		const button = this.add("button", label(text), item);
		button.type = "button";
		button.disabled = !slowest;
		button.title = "The slowest of these calls in the timeline";
		button.addEventListener("click", () => this.open(slowest));
		if (range.length && calls.length)
			this.add("span", `${shown.length} of ${count(calls.length, "such call")} in this part of the time`, item);
	}
	addLocks() {
		this.add("h2", "Contended locks");
		const table = this.add("table", ""), head = this.add("tr", "", this.add("thead", "", table)), body = this.add("tbody", "", table);
		const look = (cell, i) => cell.className = i < 3 ? "" : "text";
		["Waits", "Time", "Longest", "Lock", "Held by", "Where"].forEach((text, i) => look(this.add("th", text, head), i));
		for (const [waits, ns, longest, address, holder, place] of this.raw.locks) {
			const row = this.add("tr", "", body);
			[count(waits), time(ns), time(longest), label(address), label(holder), label(place)].forEach((text, i) => look(this.add("td", text, row), i));
		}
	}
}
