// SPDX-License-Identifier: BSD-2-Clause
/*
 * Text of the page. Names come from recorded programs, so only textContent and fillText show them. Characters that are
 * invisible, or that change the direction of the text, are replaced by their code.
 */
"use strict";

const UNSEEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;
const SHOWN_MAX = 400;

function visible(text) {
	return text.replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/* A long name takes time to draw; its start and end are enough. */
function label(text) {
	const shown = visible(text.length > 2 * SHOWN_MAX ?
		`${text.slice(0, SHOWN_MAX)}\u2026${text.slice(-SHOWN_MAX)}` : text);
	return shown.toWellFormed?.() ?? shown;
}

function count(value, unit) {
	return `${Math.round(value).toLocaleString("en-US")}${unit ? ` ${unit}${value === 1 ? "" : "s"}` : ""}`;
}

function share(part, whole) {
	const percent = whole > 0 ? 100 * part / whole : 0;
	return percent > 0 && percent < 0.01 ? "<0.01 %" : `${percent.toFixed(percent < 10 ? 2 : 1)} %`;
}

function time(ns) {
	for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["\u00b5s", 1e3]])
		if (ns >= size * 0.9995) {
			const value = ns / size;
			return `${value >= 1000 ? Math.round(value).toLocaleString("en-US") :
				value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
		}
	return `${ns < 10 && ns % 1 ? ns.toFixed(1) : Math.round(ns)} ns`;
}

/* Formats a value of a comparison: a time of a call, ms per second, or percent. */
function amountOf(value, unit) {
	if (unit === "ns")
		return time(value);
	return `${value.toFixed(value < 10 ? 2 : 1)}${unit ? ` ${unit}` : ""}`;
}

function changeOf([before, after], unit) {
	if (Math.abs(after - before) < 1e-9 * Math.max(before, after, 1))
		return "no change";
	const sign = after < before ? "\u2212" : "+";
	const ratio = !before ? "new" : !after ? "gone" : `${sign}${share(Math.abs(after - before), before)}`;
	return before || after ? `${sign}${amountOf(Math.abs(after - before), unit)} (${ratio})` : "";
}

/* Replaces the text in the outermost brackets with an ellipsis, except in "operator()", "operator<" or "(anonymous namespace)". */
function withoutInner(text, open, close) {
	let shown = "", depth = 0;
	for (let i = 0; i < text.length; i++) {
		const isName = /operator<?$/.test(text.slice(Math.max(i - 9, 0), i)) || text.startsWith("(anonymous", i);
		if (text[i] === open && (depth || !isName) && depth++ === 0)
			shown += `${open}\u2026${close}`;
		else if (text[i] === close && depth)
			depth--;
		else if (!depth)
			shown += text[i];
	}
	return depth ? text : shown;
}

/* Shorter forms of a C++ or Rust name, the longest first: names of one class differ at their ends. */
function shorterNames(name) {
	const withoutParameters = withoutInner(name, "(", ")"), plain = withoutInner(withoutParameters, "<", ">");
	const forms = [name, withoutParameters, plain];
	for (let at = plain.indexOf("::"); at >= 0; at = plain.indexOf("::", at + 2))
		forms.push(`\u2026${plain.slice(at)}`);
	return forms;
}

/* Returns a function that tests whether a name matches; null: the search is empty, or not a regular expression. */
function matcher(text) {
	if (!text)
		return null;
	const between = /^\/(.+)\/$/.exec(text);
	if (between) {
		try {
			const expression = new RegExp(between[1], "iu");
			return (name) => expression.test(name);
		} catch {
			return null;
		}
	}
	const lower = text.toLowerCase();
	return (name) => name.toLowerCase().includes(lower);
}
