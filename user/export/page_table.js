// SPDX-License-Identifier: BSD-2-Clause
/* The table of functions. Makes the rows in pieces, because there may be 100 000 of them. */
"use strict";

const ROWS = 300;

class Table {
	constructor(area, more, open) {
		Object.assign(this, { area, more, open });
		this.head = area.querySelector("thead");
		this.body = area.querySelector("tbody");
		this.sort = "self";
		more.addEventListener("click", () => this.add(10 * ROWS));
	}
	diffColumns(view) {
		const isTime = view.unit === "ns", unit = isTime ? " per call" : ` ${view.unit}`, own = isTime ? "ns" : "", [a, b] = view.sides;
		const show = (value) => amountOf(value, own), of = (what, side) => (row) => row[what][side];
		const change = (what) => (row) => Math.abs(row[what][1] - row[what][0]);
		return [
			{ id: "change", title: "Change", unit, value: change("self"), text: (row) => changeOf(row.self, own), look: "number wide" },
			{ id: "selfA", title: `Self ${a}`, value: of("self", 0), show, look: "share" },
			{ id: "self", title: `Self ${b}`, value: of("self", 1), show, look: "number" },
			{ id: "totalChange", title: "Total change", value: change("total"), text: (row) => changeOf(row.total, own), look: "number wide mean" },
			{ id: "totalA", title: `Total ${a}`, value: of("total", 0), show, look: "share" },
			{ id: "total", title: `Total ${b}`, value: of("total", 1), show, look: "number mean" },
		];
	}
	columns(view) {
		if (view.isDiff)
			return this.diffColumns(view);
		const which = view.weight, of = (what) => (row) => row[what][which];
		const show = view.isTimed ? time : (value) => count(value);
		const unit = view.isTimed ? " time" : " samples";
		const columns = [
			{ id: "self", title: "Self", unit, value: of("self"), show },
			{ id: "self-share", title: "Self", value: of("self"), isShare: true, by: "self" },
			{ id: "total", title: "Total", unit, value: of("total"), show },
			{ id: "total-share", title: "Total", value: of("total"), isShare: true, by: "total" },
		];
		if (view.isCalls)
			columns.unshift({ id: "calls", title: "Calls", value: (row) => row.self[0], show: (value) => count(value) });
		if (view.states)
			columns.unshift({ id: "waits", title: "Waits", value: (row) => row.total[0], show: (value) => count(value) });
		if (view.isCalls)
			columns.push({ id: "mean", title: "Mean", show: time,
				value: (row) => row.self[0] ? row.spent / row.self[0] : 0 });
		for (const column of columns)
			column.look = column.isShare ? "share" : column.id === "mean" ? "number mean" : "number";
		return columns;
	}
	show(scope, isMatch) {
		const { view } = scope;
		Object.assign(this, { scope, isMatch, used: this.columns(view) });
		const by = this.used.find((column) => column.id === this.sort) || this.used.find((column) => column.id === "self");
		this.all = scope.functions();
		for (const row of this.all)
			row.name = view.names[row.key];
		this.all.sort((a, b) => by.value(b) - by.value(a) || b.total[view.weight] - a.total[view.weight] ||
			(a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
		if (isMatch)
			this.all = this.all.filter((row) => isMatch(2 * row.key));
		this.shown = 0;
		this.addHead(by);
		this.body.replaceChildren();
		this.add(ROWS);
	}
	addHead(by) {
		const row = document.createElement("tr"), widths = document.createElement("colgroup");
		const column = (name) => widths.appendChild(document.createElement("col")).className = name;
		for (const one of this.used) {
			column(one.look);
			const cell = row.appendChild(document.createElement("th"));
			cell.className = one.look;
			const button = cell.appendChild(document.createElement("button"));
			button.type = "button";
			button.textContent = one.isShare ? "%" : one.title;
			button.appendChild(document.createElement("span")).textContent = one.unit || "";
			button.title = `Sort by ${one.title.toLowerCase()}`;
			cell.scope = "col";
			if (one === by && !one.isShare)
				cell.setAttribute("aria-sort", "descending");
			button.addEventListener("click", () => this.open({ sort: one.by || one.id }));
		}
		for (const [title, name] of [["Function", "name"], ["Object", "object"]]) {
			column(name);
			const cell = row.appendChild(document.createElement("th"));
			cell.className = `text ${name}`;
			cell.scope = "col";
			cell.textContent = title;
		}
		this.head.replaceChildren(row);
		this.area.querySelector("colgroup")?.remove();
		this.head.before(widths);
	}
	add(rows) {
		const piece = document.createDocumentFragment(), to = Math.min(this.all.length, this.shown + rows);
		for (; this.shown < to; this.shown++)
			piece.append(this.row(this.all[this.shown]));
		this.body.append(piece);
		this.more.hidden = this.shown === this.all.length;
		this.more.textContent = `Show more of ${count(this.all.length, "function")}`;
	}
	row(one) {
		const { view } = this.scope, code = 2 * one.key, line = document.createElement("tr");
		for (const column of this.used) {
			const cell = line.appendChild(document.createElement("td")), value = column.value(one);
			cell.className = column.look;
			cell.textContent = !value ? "" : column.text ? column.text(one) : column.isShare ? share(value, this.scope.whole) : column.show(value);
			if (column.isShare && value) {
				const bar = cell.appendChild(document.createElement("span"));
				bar.className = "bar";
				bar.style.width = `calc((100% - 22px) * ${Math.min(value / this.scope.whole, 1)})`;
			} else if (!column.isShare && column.id !== "mean")
				line.dataset[column.id] = value;
		}
		const name = line.appendChild(document.createElement("td")), object = line.appendChild(document.createElement("td"));
		name.className = "text name";
		name.append(document.createElement("i"), label(one.name));
		name.firstChild.style.background = view.isDiff ? colourOfChange(view, one.self) :
			view.states ? colourOfStates(view, one.states, "") : colourOf(view.kindOf(code), "");
		name.title = label(one.name);
		object.className = "text object";
		object.textContent = label(view.objectOf(code));
		object.title = object.textContent;
		line.tabIndex = 0;
		line.dataset.key = one.key;
		const open = () => this.open({ mode: "function", function: one.key, path: [] });
		line.addEventListener("click", open);
		line.addEventListener("keydown", (event) => event.key === "Enter" && open());
		return line;
	}
}
