// SPDX-License-Identifier: BSD-2-Clause
// Runs for so many seconds, nearly all in hotLoop() and what it calls. Now and then another function is compiled: V8
// writes its jitdump in pieces of 4 KiB, and would keep the last one to itself.
function leaf(n) {
  let s = 0;
  for (let i = 0; i < n; i++) s = (s * 31 + i) | 0;
  return s;
}
function hotLoop(n) {
  let s = 0;
  for (let i = 0; i < 100; i++) s += leaf(n);
  return s;
}
function compileOther(i) {
  const other = new Function("n", `let s = ${i}; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s;`);
  let s = 0;
  for (let j = 0; j < 500; j++) s += other(20);
  return s;
}
function main(seconds) {
  const end = Date.now() + 1000 * seconds;
  let sum = 0;
  for (let i = 0; Date.now() < end; i++) sum += i % 20 ? hotLoop(1000) : compileOther(i);
  return sum;
}
main(Number(process.argv[2]));
