// SPDX-License-Identifier: BSD-2-Clause
// Runs 5000 functions in turn until it is killed; all are compiled soon.
const functions = [];
for (let i = 0; i < 5000; i++)
  functions.push(new Function("n", `let s = ${i}; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s;`));
let sum = 0;
for (;;) for (const f of functions) sum += f(50);
