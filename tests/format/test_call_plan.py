# SPDX-License-Identifier: BSD-2-Clause
"""Checks `xprof list` for functions without sleds of real compilers, against the exits that objdump shows."""
import collections
import json
import re
import shutil

import pytest

import project

SOURCE = r"""
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define API __attribute__((noinline, visibility("default")))

int calls;
API int leaf(int a) { return a + 1; }
API int three_bytes(void) { return 0; }
API int tail(int a) { calls++; return leaf(a * 2); }
API int conditional(int a) { if (a == 3) return leaf(a); calls += a; return a * 5; }
API int pointer(int (*to)(int), int a) { calls++; return to(a); }
API long recursive(long n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }
API void unlikely(int a) { if (__builtin_expect(a > 1000, 0)) { fprintf(stderr, "%d\n", a); abort(); } calls++; }
API int unlikely_return(int a) { if (__builtin_expect(a > 1000, 0)) { printf("%d\n", a); return leaf(a); } return calls; }
API int switched(int a, int b)
{
	switch (a) {
	case 0: return b + 1;
	case 1: calls += b; return b * 3;
	case 2: return leaf(b);
	case 3: return printf("%d\n", b);
	case 4: return b ^ calls;
	case 5: calls--; break;
	case 6: return b << 3;
	case 7: return -b;
	}
	return calls;
}
API int threaded(const unsigned char *code)
{
	static const void *const labels[] = { &&up, &&down, &&print, &&out };
	int value = 0;
	goto *labels[*code & 3];
up: value++; code++; goto *labels[*code & 3];
down: value--; code++; goto *labels[*code & 3];
print: printf("%d\n", value); code++; goto *labels[*code & 3];
out: return value;
}
API int big(int *list, int count)
{
	int sum = 0, i;
	for (i = 0; i < count; i++) {
		if (list[i] == 7) return leaf(sum);
		if (list[i] < 0) { sum -= list[i]; continue; }
		sum += switched(list[i], i);
	}
	return sum;
}
int main(int argc, char **argv)
{
	int list[] = { argc, 2, 3 };
	unlikely(argc);
	return tail(argc) + conditional(argc) + pointer(leaf, argc) + (int)recursive(argc) + switched(argc, 2) + three_bytes() +
	       threaded((const unsigned char *)argv[0]) + big(list, 3) + unlikely_return(argc);
}
"""

NAMES = ["leaf", "three_bytes", "tail", "conditional", "pointer", "recursive", "unlikely", "unlikely_return", "switched",
         "threaded", "big", "main"]
COMPILERS = ["gcc", *(f"clang-{version}" for version in project.clang_versions())]
VARIANTS = [["-O0"], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-O2", "-fno-pie", "-no-pie"], ["-O2", "-fcf-protection=full"]]


def listed(xprof, path):
    """Returns {name: function} of the program's own functions."""
    done = xprof("list", "--json", path)
    assert (done.returncode, done.stderr) == (0, "")
    (described,) = json.loads(done.stdout)["objects"]
    return {function["name"]: function for function in described["functions"] if function["name"] in NAMES}


def disassembled(path):
    """Returns {name: exits}: returns, jumps to other functions, and jumps through pointers that are not switches."""
    exits = collections.Counter({name: 0 for name in NAMES})
    current = None
    for line in project.run(["objdump", "-d", "--no-show-raw-insn", path]).stdout.splitlines():
        if start := re.match(r"[0-9a-f]+ <([^>]+)>:", line):
            current = re.sub(r"\.cold.*", "", start[1])
        elif re.search(r"\tret", line):
            exits[current] += 1
        elif jump := re.search(r"\t(?:bnd )?j\w+ +[0-9a-f]+ <([^>+]+)>", line):
            exits[current] += re.sub(r"\.cold.*", "", jump[1]) != current
        elif re.search(r"\tjmp +\*", line):
            exits[current] += current == "pointer"
    return {name: exits[name] for name in NAMES}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_exits(xprof, program, compiler):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    for flags in VARIANTS:
        path = program.text("call-plan", SOURCE, "-fPIE", "-pie", *flags, clang=compiler, instrument=False)
        functions = listed(xprof, path)
        assert {name: function.get("exits") for name, function in functions.items()} == disassembled(path), flags
        ways = {function["calls"] for function in functions.values()}
        # Without alignment, functions of 3 and 4 bytes have no space for a patch.
        assert ways <= ({"patched", "partly"} if flags[0] in ("-O0", "-O2", "-O3") else {"patched", "partly", "probes"}), flags


def test_stripped(xprof, program, tmp_path):
    """Without symbols the plan is the same, and functions have the name of their place."""
    path = program.text("call-plan", SOURCE, "-O2", clang="gcc", instrument=False)
    bare = tmp_path / "stripped"
    project.run(["strip", "-o", bare, path])
    with_names, without = (
        [(function["name"], function["address"], function["calls"]) for function in json.loads(xprof("list", "--json", file).stdout)["objects"][0]["functions"]]
        for file in (path, bare)
    )
    assert {name for name, _, _ in with_names} >= set(NAMES)
    assert [(f"stripped+0x{address:x}", address, calls) for _, address, calls in with_names] == without


def test_text_and_json_agree(xprof):
    lines = xprof("list", "/bin/sh").stdout.splitlines()
    listed = json.loads(xprof("list", "--json", "/bin/sh").stdout)["objects"][0]
    functions = listed["functions"]
    count, *kinds = map(int, re.match(r"# /bin/sh: (\d+) functions without sleds: (\d+) patched, (\d+) partly, (\d+) probes, (\d+) refused", lines[0]).groups())
    assert count == len(functions) == len(lines) - 2 == sum(kinds)
    assert list(listed["totals"].values()) == [0, *kinds]
    assert kinds == [sum(function["calls"] == way for function in functions) for way in ("patched", "partly", "probes", "refused")]
    assert [line.split()[0] for line in lines[2:]] == [function["calls"] for function in functions]
    # Debian's dash: 97 of 100 functions need no probe.
    assert kinds[0] > 0.97 * count


def test_process_by_name(xprof, start, tmp_path):
    """Like -p of record: a name is a process if there is no such file."""
    path = tmp_path / "xp-test-named"
    shutil.copy("/bin/sleep", path)
    start([path, "60"])
    assert xprof("list", path.name).stdout.splitlines()[0].startswith(f"# {path}: ")
    (tmp_path / "xp-test-none").touch()
    done = project.run([project.XPROF, "list", "xp-test-none"], cwd=tmp_path)
    assert done.returncode == 1 and "xp-test-none: " in done.stderr
    done = project.run([project.XPROF, "list", "xp-test-absent"])
    assert done.returncode == 1 and "no process has the name 'xp-test-absent'" in done.stderr


def test_json_of_sleds(xprof, program):
    """Of a file with sleds, only functions with sleds are listed, with their IDs: record records only these."""
    path = program.text("call-plan", SOURCE, "-O2", project.no_runtime())
    functions = json.loads(xprof("list", "--json", path).stdout)["objects"][0]["functions"]
    assert [function["id"] for function in functions] == list(range(1, len(functions) + 1))
    assert {function["name"] for function in functions} == set(NAMES)
    assert all((function["calls"], function["entry"]) == ("sled", 1) for function in functions)


def test_json_excludes_sleds(xprof):
    done = xprof("list", "--json", "--sleds", "/bin/sh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--json cannot be used with --sleds" in done.stderr


USDT = r"""
#define PROBE(base, semaphore, provider, name, arguments) \
	__asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.long 8, 992f-991f, 3\n" \
			 ".asciz \"stapsdt\"\n991: .quad 990b, " base ", " semaphore "\n.asciz \"" provider "\"\n" \
			 ".asciz \"" name "\"\n.asciz \"" arguments "\"\n992: .balign 4\n.popsection")
__attribute__((section(".probes"))) unsigned short counter;
__attribute__((section(".stapsdt.base"))) const char link_base = 0;
int main(int count, char **args)
{
	PROBE("link_base", "counter", "mine", "first", "-4@%edi 8@-16(%rbp) 8@(%rax,%rbx,8) 4@$5");
	PROBE("link_base", "0", "mine", "none", "");
	PROBE("link_base - 16", "0", "a\033b", "moved", "1@%al");
	return counter;
}
"""


def test_usdt(xprof, program):
    """The addresses of a file whose code was moved after it was linked, too; a text cannot drive a terminal."""
    path = program.text("usdt", USDT, "-O2", "-no-pie", clang="gcc", instrument=False)
    (described,) = json.loads(xprof("list", "--json", path).stdout)["objects"]
    truth = re.findall(
        r"Name: (\w+)\n.*Location: (\w+), Base: \w+, Semaphore: (\w+)\n *Arguments:(.*)", project.run(["readelf", "-n", path]).stdout
    )
    truth = [(name, int(at, 16) + 16 * (name == "moved"), int(semaphore, 16), arguments.strip()) for name, at, semaphore, arguments in truth]
    assert [(p["name"], p["address"], p["semaphore"], p["arguments"]) for p in described["usdt"]] == truth and len(truth) == 3
    shown = xprof("list", path).stdout
    assert "# 3 USDT probes" in shown and f"0x{truth[0][2]:016x} mine:first -4@%edi" in shown and " a?b:moved 1@%al\n" in shown
