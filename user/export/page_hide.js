// SPDX-License-Identifier: BSD-2-Clause
/*
 * Views without some of their nodes. A node keeps its number, so a shown frame is also in the full view.
 *
 *	drop	functions whose stacks are omitted
 *	merge	functions without frames: their callers get their values
 *	isCollapsed	a function that calls itself is one frame
 *	idle	nodes of omitted threads
 *	wakers	whether the waker of a wait has a frame
 *	range	times from and to: the rest is omitted; empty: all times
 */
"use strict";

const IDLE = 0.99; /* share of the recording */

/* Returns how long the thread did nothing. A thread that waits for a lock may wait for work, or starve: it is shown. */
function idleNs(view, node) {
	return view.states.reduce((sum, state, i) => sum + (state === "sleeping" || state === "idle" ? view.stateTotal[i][node] : 0), 0);
}

/* Returns the nodes of idle threads: groups without groups below them. */
function idleThreads(view, lengthNs) {
	const found = new Set();
	if (!view.states || !lengthNs || view.by !== "thread" && view.by !== "process")
		return found;
	for (let node = 1; node < view.count; node++)
		if (view.isGroup(node) && !view.groupsOf(node).length && idleNs(view, node) >= IDLE * lengthNs)
			found.add(node);
	return found;
}

class Hiding {
	constructor({ drop, merge, isCollapsed, idle, wakers, range }) {
		Object.assign(this, { drop: new Set(drop), merge: new Set(merge), isCollapsed, idle, wakers, range });
	}
	isNothing(view) {
		return (this.wakers || !view.hasWakers) && !this.drop.size && !this.merge.size && !this.isCollapsed && !this.idle.size && !this.range.length;
	}
	isMerged(view, node, up) {
		const code = view.code[node];
		return code >= 0 && (this.merge.has(code >> 1) || !this.wakers && view.kinds[code >> 1] === WAKER || this.isCollapsed && up > 0 && view.code[up] === code);
	}
	/* Returns the view without hidden nodes. */
	of(view) {
		if (this.isNothing(view))
			return view;
		const { count } = view, kept = new Int32Array(count), copy = Object.create(view);
		const values = (of) => of.map((list) => Float64Array.from(list));
		Object.assign(copy, { parent: Int32Array.from(view.parent), first: new Int32Array(count), next: new Int32Array(count),
			self: values(view.self), total: values(view.total) });
		if (view.states)
			Object.assign(copy, { stateSelf: values(view.stateSelf), stateTotal: values(view.stateTotal) });
		if (this.range.length && view.slots)
			Object.assign(copy, view.slots.within(this.range, view));
		/* The calls of a function are not calls of its caller. */
		const lists = [...copy.self, ...(copy.stateSelf || [])], added = view.isCalls ? [copy.self[1]] : lists;
		for (let node = 1; node < count; node++) {
			const up = kept[view.parent[node]], code = view.code[node];
			const isGone = up < 0 || this.idle.has(node) || code >= 0 && this.drop.has(code >> 1);
			kept[node] = isGone ? -1 : this.isMerged(view, node, up) ? up : node;
			copy.parent[node] = kept[node] === node ? up : -1;
			if (kept[node] === node)
				continue;
			if (!isGone)
				added.forEach((list) => list[up] += list[node]);
			lists.forEach((list) => list[node] = 0);
		}
		copy.addUp();
		copy.setWeight(view.weight);
		return copy;
	}
}
