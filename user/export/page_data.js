// SPDX-License-Identifier: BSD-2-Clause
/*
 * The recording of the page: decodes the data that html.c writes, and computes values for the graphs.
 *
 * A view (samples, calls or waits) is one tree of numbered nodes; a parent's number is lower than its children's. Node 0 is the
 * root. Below it are nodes of processes, and below these nodes of threads ("groups"). All values are in typed arrays:
 * 500 000 nodes are decoded in a fraction of a second.
 *
 * The graphs show frames: nodes that a scope merges. Only visible frames are made.
 */
"use strict";

const KINDS = ["user", "kernel", "jit", "unknown", "inlined", "group", "recorder", "waker", "rare"];
const WAKER = KINDS.indexOf("waker");

function bytesOf(base64) {
	const text = atob(base64), bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++)
		bytes[i] = text.charCodeAt(i);
	return bytes;
}

/* Numbers in groups of 7 bits, the lowest first; the highest bit means that more groups follow. */
class Numbers {
	constructor(bytes) {
		this.bytes = bytes;
		this.at = 0;
	}
	next() {
		let value = 0, weight = 1, byte;
		do {
			if (this.at >= this.bytes.length)
				throw new Error("the data is cut off");
			byte = this.bytes[this.at++];
			value += (byte & 127) * weight;
			weight *= 128;
		} while (byte & 128);
		return value;
	}
	/* Zigzag: 0, -1, 1, -2, ... */
	nextSigned() {
		const value = this.next();
		return value % 2 ? -(value + 1) / 2 : value / 2;
	}
}

/* The code of a node: 2 * function + (1 if inlined); for a group, -1 - group. The root has none. */
class View {
	constructor(raw) {
		const numbers = new Numbers(bytesOf(raw.tree)), count = raw.nodes;
		Object.assign(this, raw);
		this.isCalls = raw.kind === "calls";
		this.isTimed = this.isCalls || raw.kind === "waits"; /* widths are times */
		this.one = raw.kind.slice(0, -1);
		this.count = count;
		this.parent = new Int32Array(count);
		this.code = new Int32Array(count);
		this.first = new Int32Array(count); /* child; 0: none */
		this.next = new Int32Array(count); /* sibling */
		this.self = [new Float64Array(count), new Float64Array(count)];
		this.total = [new Float64Array(count), new Float64Array(count)];
		this.decode(numbers);
		/* In a comparison, the values are those of A and B, in the unit of the comparison. */
		this.isDiff = raw.scales !== undefined;
		this.sides ??= ["A", "B"];
		this.hasWakers = raw.kinds.includes(WAKER);
		if (this.isDiff)
			for (const side of [0, 1])
				this.self[side] = this.self[side].map((value) => value * raw.scales[side]);
		if (raw.states)
			this.decodeStates(new Numbers(bytesOf(raw.byState)));
		this.addUp();
		this.kindsUsed = new Set(this.code.subarray(1).map((code) => this.kindOf(code)));
		this.merged = raw.whole ? new View({ ...raw, whole: undefined, ...raw.whole }) : null;
		this.slots = raw.slots === undefined ? null : new Slots(raw);
		this.setWeight(this.isTimed || this.isDiff ? 1 : 0);
	}
	/* The value that widths represent: samples or ns; of A or B. */
	setWeight(which) {
		this.weight = which;
		this.whole = this.total[which][0];
	}
	/* Returns whether samples of A and B differ by more than chance (3 of 1000). Calls and waits are not samples. */
	isBeyondNoise(values, frame) {
		if (this.certain)
			return !frame?.nodes || frame.nodes.some((node) => this.certain[node]);
		if (this.isTimed)
			return values[0] !== values[1];
		/* If all values belong to one total, values that are not here are elsewhere. */
		const variance = (side) => values[side] * this.scales[side] *
			(this.per === "second" ? 1 : 1 - values[side] / this.total[side][0]);
		return Math.abs(values[1] - values[0]) > 3 * Math.sqrt(Math.max(variance(0), 0) + Math.max(variance(1), 0)) + 1e-9;
	}
	decode(numbers) {
		let group = 0;
		for (let i = 0; i < this.count; i++) {
			if (i) {
				const what = numbers.next() /* of the parent: */, up = numbers.next();
				this.code[i] = what ? what - 1 : -1 - group++;
				this.parent[i] = i - up;
			}
			this.self[0][i] = numbers.next();
			this.self[1][i] = this.self[0][i] * this.period + numbers.nextSigned();
		}
	}
	/* For waits: the time in each state. */
	decodeStates(numbers) {
		this.stateSelf = this.states.map(() => new Float64Array(this.count));
		for (let i = 0; i < this.count; i++)
			if (this.self[1][i])
				for (const of of this.stateSelf)
					of[i] = numbers.next();
		this.stateTotal = this.stateSelf.map((of) => new Float64Array(of.length));
	}
	/* Computes totals and the lists of children. A node without a parent is omitted. */
	addUp() {
		const { parent, first, next } = this;
		const totals = [...this.total, ...(this.stateTotal || [])], selves = [...this.self, ...(this.stateSelf || [])];
		totals.forEach((of, i) => of.set(selves[i]));
		for (let i = this.count - 1; i > 0; i--) {
			const up = parent[i];
			if (up < 0)
				continue;
			for (const of of totals)
				of[up] += of[i];
			next[i] = first[up];
			first[up] = i;
		}
	}
	isGroup(node) {
		return node > 0 && this.code[node] < 0;
	}
	groupsOf(node) {
		const found = [];
		for (let i = this.first[node]; i; i = this.next[i])
			if (this.code[i] < 0)
				found.push(i);
		return found.sort((a, b) => this.total[this.weight][b] - this.total[this.weight][a]);
	}
	nameOf(code) {
		return code < 0 ? this.groups[-1 - code] : this.names[code >> 1];
	}
	kindOf(code) {
		return code < 0 ? 5 : code & 1 ? 4 : this.kinds[code >> 1];
	}
	objectOf(code) {
		return code < 0 ? "" : this.objects[this.in[code >> 1]];
	}
	/* The source line of the instruction with the most samples. */
	lineOf(code) {
		const line = this.lines?.[code >> 1];
		return code >= 0 && line ? `${this.fileOf(code)}:${line}` : "";
	}
	fileOf(code) {
		return code < 0 ? "" : this.files[this.sources[code >> 1]] || "";
	}
}

/*
 * The shown part of a view. Groups less than `split` levels below the root have their own frames, other groups are
 * merged.
 */
class Scope {
	constructor(view, root, split) {
		this.view = view;
		this.root = root;
		this.split = split;
		this.whole = view.total[view.weight][root];
	}
	/* Returns whether the node has no frame. */
	isMerged(node) {
		if (!this.view.isGroup(node))
			return false;
		let level = 1;
		for (let up = this.view.parent[node]; up !== this.root; up = this.view.parent[up])
			level++;
		return level > this.split;
	}
	/* Calls enter() and leave() for all nodes below the root; leave() after the nodes below. */
	walk(enter, leave) {
		const { first, next, parent } = this.view;
		let node = this.root;
		for (;;) {
			enter(node);
			if (first[node]) {
				node = first[node];
				continue;
			}
			for (;;) {
				leave?.(node);
				if (node === this.root)
					return;
				if (next[node]) {
					node = next[node];
					break;
				}
				node = parent[node];
			}
		}
	}
	/* Returns a row for each function. A stack counts once in a total, even if the function occurs several times. */
	functions() {
		const { view } = this, rows = new Map(), open = new Map();
		this.walk((node) => {
			if (node === this.root || view.code[node] < 0)
				return;
			const key = view.code[node] >> 1;
			let row = rows.get(key);
			if (!row)
				rows.set(key, row = { key, self: [0, 0], total: [0, 0], spent: 0, states: (view.states || []).map(() => 0) });
			const depth = open.get(key) || 0;
			open.set(key, depth + 1);
			for (const which of [0, 1]) {
				row.self[which] += view.self[which][node];
				if (!depth)
					row.total[which] += view.total[which][node];
			}
			for (let state = 0; !depth && state < row.states.length; state++)
				row.states[state] += view.stateTotal[state][node];
			row.spent += view.total[1][node]; /* of each call, including nested calls of the same function */
		}, (node) => {
			if (node !== this.root && view.code[node] >= 0)
				open.set(view.code[node] >> 1, open.get(view.code[node] >> 1) - 1);
		});
		return [...rows.values()];
	}
	/* Returns the sum over stacks with a matching frame; each stack counts once. */
	matched(isMatch) {
		const { view } = this, sum = [0, 0];
		let depth = 0;
		const matches = (node) => node !== this.root && isMatch(view.code[node]) && !this.isMerged(node);
		this.walk((node) => {
			depth += matches(node);
			if (depth) {
				sum[0] += view.self[0][node];
				sum[1] += view.self[1][node];
			}
		}, (node) => {
			depth -= matches(node);
		});
		return sum;
	}
	/* Returns the own values of each kind of code. */
	kinds() {
		const { view } = this, sums = KINDS.map(() => 0);
		this.walk((node) => {
			if (node && view.code[node] >= 0)
				sums[view.kindOf(view.code[node])] += view.self[view.weight][node];
		});
		return sums;
	}
}

/*
 * A frame represents nodes. In a reversed graph, each node is an ancestor of a leaf, and the values of the leaf count.
 */
class Frame {
	constructor(scope, up, code) {
		this.scope = scope;
		this.up = up;
		this.code = code;
		this.depth = up ? up.depth + 1 : 0;
		this.nodes = [];
		this.leaves = null;
		this.isFunction = false;
		this.total = [0, 0];
		this.self = [0, 0];
		this.known = null;
		this.knownStates = null;
	}
	static root(scope, isReversed) {
		const root = new Frame(scope, null, null), { view } = scope;
		if (isReversed) {
			root.leaves = [];
			scope.walk((node) => {
				if (view.self[0][node] || view.self[1][node])
					root.add(node, node);
			});
		} else
			root.add(scope.root);
		return root;
	}
	/* Collects all calls of a function, with its callees below, or with its callers. A nested call is part of the outer one. */
	static ofFunction(scope, key, isReversed) {
		const root = new Frame(scope, null, 2 * key), { view } = scope;
		let depth = 0;
		root.isFunction = true;
		if (isReversed)
			root.leaves = [];
		scope.walk((node) => {
			if (node && view.code[node] >> 1 === key && depth++ === 0)
				root.add(node, isReversed ? node : undefined);
		}, (node) => {
			depth -= node && view.code[node] >> 1 === key;
		});
		return root;
	}
	get root() {
		return this.up ? this.up.root : this;
	}
	get isNamed() {
		return this.up !== null || this.isFunction;
	}
	/* Returns whether it is the frame, or an outer frame. */
	isOver(frame) {
		for (let at = frame; at; at = at.up)
			if (at === this)
				return true;
		return false;
	}
	/* For a leaf, its own values count; for a call of the function, its total. */
	get ofLeaves() {
		return this.root.isFunction;
	}
	add(node, leaf) {
		const { view } = this.scope, of = leaf === undefined || this.ofLeaves ? view.total : view.self;
		this.nodes.push(node);
		if (leaf !== undefined)
			this.leaves.push(leaf);
		for (const which of [0, 1]) {
			this.total[which] += of[which][leaf ?? node];
			this.self[which] += leaf === undefined ? view.self[which][node] : 0;
		}
	}
	/* For waits: the time in each state. */
	get states() {
		const { view } = this.scope, of = this.leaves && !this.ofLeaves ? view.stateSelf : view.stateTotal;
		this.knownStates ??= of.map((ns) => (this.leaves || this.nodes).reduce((sum, node) => sum + ns[node], 0));
		return this.knownStates;
	}
	get width() {
		return this.total[this.scope.view.weight];
	}
	get kids() {
		if (!this.known) {
			const found = new Map();
			if (this.leaves)
				this.addCallers(found);
			else
				this.addCallees(found);
			const order = this.scope.view.weight;
			this.known = [...found.values()].sort((a, b) => b.total[order] - a.total[order] || a.code - b.code);
		}
		return this.known;
	}
	kid(found, node) {
		const code = this.scope.view.code[node];
		let kid = found.get(code);
		if (!kid) {
			found.set(code, kid = new Frame(this.scope, this, code));
			kid.leaves = this.leaves && [];
		}
		return kid;
	}
	addCallees(found) {
		const { view } = this.scope, pending = [...this.nodes];
		for (let at = 0; at < pending.length; at++)
			for (let node = view.first[pending[at]]; node; node = view.next[node])
				if (this.scope.isMerged(node))
					pending.push(node);
				else
					this.kid(found, node).add(node);
	}
	addCallers(found) {
		const { view, root } = this.scope;
		this.nodes.forEach((node, i) => {
			let up = this.isNamed ? view.parent[node] : node;
			while (up !== root && this.scope.isMerged(up))
				up = view.parent[up];
			if (up !== root && (this.isNamed || node !== root))
				this.kid(found, up).add(up, this.leaves[i]);
			else
				for (const which of [0, 1])
					this.self[which] += (this.ofLeaves ? view.total : view.self)[which][this.leaves[i]];
		});
	}
	/* Returns the codes from below the root to this frame. */
	get path() {
		const codes = [];
		for (let at = this; at.up; at = at.up)
			codes.push(at.code);
		return codes.reverse();
	}
	find(codes) {
		let at = this;
		for (const code of codes) {
			const kid = at.kids.find((one) => one.code === code);
			if (!kid)
				break;
			at = kid;
		}
		return at;
	}
}
