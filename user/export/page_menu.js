// SPDX-License-Identifier: BSD-2-Clause
/* Shows the numbers of a frame and a menu of actions at the pointer. */
"use strict";

const AWAY = 14; /* px from the pointer */

/* Puts an element next to a place in the window, within the window. */
function placeAt(element, x, y, away) {
	const { offsetWidth: width, offsetHeight: height } = element, { innerWidth, innerHeight } = window;
	element.style.left = `${Math.max(x + away + width > innerWidth ? x - away - width : x + away, 0)}px`;
	element.style.top = `${Math.max(y + away + height > innerHeight ? y - away - height : y + away, 0)}px`;
}

class Tip {
	constructor(element) {
		this.element = element;
	}
	show(name, numbers, event) {
		const { element } = this, title = document.createElement("b"), text = document.createElement("span");
		title.textContent = name;
		text.textContent = numbers;
		element.replaceChildren(title, text);
		element.hidden = false;
		placeAt(element, event.clientX, event.clientY, AWAY);
	}
	hide() {
		this.element.hidden = true;
	}
}

class Menu {
	constructor(element) {
		this.element = element;
		element.addEventListener("keydown", (event) => this.onKey(event));
		document.addEventListener("pointerdown", (event) => element.contains(event.target) || this.close());
		window.addEventListener("blur", () => this.close());
	}
	/* choices: text and action of each. */
	open(choices, x, y) {
		const { element } = this;
		this.before = document.activeElement;
		element.replaceChildren(...choices.map(([text, act]) => {
			const button = document.createElement("button");
			button.type = "button";
			button.setAttribute("role", "menuitem");
			button.textContent = text;
			button.addEventListener("click", () => {
				this.close();
				act();
			});
			return button;
		}));
		element.hidden = false;
		placeAt(element, x, y, 0);
		element.firstChild.focus();
	}
	close() {
		if (this.element.hidden)
			return;
		this.element.hidden = true;
		this.before?.focus({ preventScroll: true });
	}
	onKey(event) {
		const items = [...this.element.children], at = items.indexOf(document.activeElement);
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (step)
			items[(at + step + items.length) % items.length].focus();
		else if (event.key === "Escape" || event.key === "Tab")
			this.close();
		else
			return;
		event.preventDefault();
		event.stopPropagation();
	}
}
