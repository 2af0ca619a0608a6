#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_call_plan: `seed_call_plan.py tests/fuzz/corpus/call_plan` (gcc, ld and strip needed)."""
import pathlib
import subprocess
import sys
import tempfile

SOURCE = r"""
int calls;
__attribute__((noinline)) int leaf(int a) { return a + 1; }
__attribute__((noinline)) int zero(void) { return 0; }
__attribute__((noinline)) int tail(int a) { calls++; return leaf(a * 2); }
__attribute__((noinline)) int conditional(int a) { if (a == 3) return leaf(a); calls += a; return a * 5; }
__attribute__((noinline)) int pointer(int (*to)(int), int a) { calls++; return to(a); }
__attribute__((noinline)) int switched(int a, int b)
{
	switch (a) {
	case 0: return b + 1;
	case 1: calls += b; return b * 3;
	case 2: return leaf(b);
	case 3: calls--; return pointer(leaf, b) + 1;
	case 4: return b ^ calls;
	case 5: calls--; break;
	}
	return calls;
}
__attribute__((noinline)) int threaded(const unsigned char *code)
{
	static const void *const labels[] = { &&up, &&down, &&out };
	int value = 0;
	goto *labels[*code];
up: value++; code++; goto *labels[*code];
down: value -= leaf(value); code++; goto *labels[*code];
out: return value;
}
__attribute__((noinline)) int unlikely(int a)
{
	if (__builtin_expect(a > 1000, 0)) { calls += leaf(a); return conditional(a) + tail(a); }
	return calls;
}
void _start(void) { switched(threaded((void *)&calls), unlikely(zero()) + conditional(2) + tail(3)); for (;;); }
"""

with tempfile.TemporaryDirectory() as name:
    directory = pathlib.Path(name)
    (directory / "t.c").write_text(SOURCE)
    for flags in (["-O0"], ["-O2", "-fpie"], ["-Os", "-fpie"], ["-O2", "-fno-pie"], ["-O3", "-fcf-protection=full", "-fpie"]):
        link = ["-pie", "--no-dynamic-linker"] if "-fpie" in flags else []
        for argv in (["gcc", "-c", "-fno-stack-protector", *flags, "t.c"],
                     ["ld", "-z", "max-page-size=16", "-z", "noseparate-code", "-o", "t", *link, "t.o"], ["strip", "t"]):
            subprocess.run(argv, cwd=directory, check=True)
        pathlib.Path(sys.argv[1], "".join(flags).strip("-")).write_bytes((directory / "t").read_bytes())
