# SPDX-License-Identifier: BSD-2-Clause
"""
Plans for functions without sleds and their trampolines, on whole programs: a preloaded library (programs/patch_self.c)
patches every function of one binary of its process. The program must behave as without the library, and each call must
be counted.
"""
import os
import re
import shutil
import subprocess

import pytest

import project

SOURCES = ["functions/call_plan.c", "functions/code_groups.c", "functions/code_map.c", "functions/go_plan.c", "functions/jump_targets.c",
           "functions/windows.c", "functions/patches.c", "arch/x86_64/code_decode.c", "arch/x86_64/trampoline.c",
           "elf/elf_file.c", "elf/go_functions.c", "unwind/cfi_fdes.c", "unwind/cfi_program.c", "base/array.c", "base/why.c"]


@pytest.fixture(scope="session")
def patch_self(tmp_path_factory):
    path = tmp_path_factory.mktemp("patch") / "patch_self.so"
    done = project.run([
        "gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-D_GNU_SOURCE",
        f"-I{project.REPO}/include", f"-I{project.REPO}/user", "-o", path, project.REPO / "tests/live/programs/patch_self.c",
        *(project.REPO / "user" / source for source in SOURCES), "-lelf", "-ldw", "-lZydis",
    ])
    assert done.returncode == 0, done.stderr
    return path


def patched(patch_self, tmp_path, name, argv, **options):
    """
    Runs a program while all functions of the binary with this name are patched. Returns (process, counts, line of
    totals).
    """
    out = tmp_path / "counts"
    environment = {**os.environ, "LD_PRELOAD": str(patch_self), "PATCH_SELF": name, "PATCH_SELF_OUT": str(out)}
    done = subprocess.run(argv, capture_output=True, env=environment, timeout=100, **options)
    lines = out.read_text().splitlines()
    counts = {int(address, 16): int(count) for address, count in re.findall(r"^calls (\S+) (\d+)$", out.read_text(), re.M)}
    out.unlink()
    return done, counts, lines[-1]


BASH = r"""
f() { [ $1 -gt 0 ] && f $(($1 - 1)); }; f 100
for i in 1 2 3; do echo $((i * i)) ${BASH_VERSION/5/x}; done | while read a b; do echo "$b $a"; done
trap 'echo trapped' USR1; kill -USR1 $$; declare -A map=([a]=1 [b]=2); echo "${!map[@]}" "${map[@]}"
case abc in a*) echo yes ;; esac; [[ abc =~ (b)(c) ]] && echo "${BASH_REMATCH[2]}"; (exit 3); echo $?
"""
PERL = r"""
my %h; for (1..3000) { $h{$_ % 77} .= sprintf("%x,", $_); } my $s = join("|", map { "$_=$h{$_}" } sort { $a <=> $b } keys %h);
$s =~ s/(\d+),(\d+)/$2-$1/g; print $s, "\n"; for (1..100) { eval { die "x$_\n" }; print $@; } local $SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; select undef, undef, undef, 10; }; print $@, unpack("%32C*", pack("w/a", $s)), "\n";
"""
PYTHON = r"""
import asyncio, decimal, json, re, threading
print(json.dumps([{"a": i} for i in range(300)]), re.sub("(a+)b", r"\1", "aaab" * 3), decimal.Decimal(2).sqrt())
async def f(n): return n if n < 1 else n + await f(n - 1)
print(asyncio.run(f(100)))
def g(n):
    try: return 1 // n
    except ZeroDivisionError as e: raise KeyError(n) from e
for n in (0, 1):
    try: print(g(n))
    except KeyError as e: print(repr(e), repr(e.__cause__))
results = []
threads = [threading.Thread(target=lambda i=i: results.append(sum(x * i for x in range(20000)))) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(sorted(results))
"""

PROGRAMS = {
    "bash": ["-c", BASH],
    "perl": ["-e", PERL],
    "python3": ["-S", "-c", PYTHON],
    "git": ["-c", "core.pager=cat", "log", "--stat", "-n", "20", "--format=%H"],
    "gdb": ["-nx", "-batch", "-ex", "info functions main", "-ex", "print 1 +", "-ex", "print $_siginfo", "-ex", "print 7 / 2.0", "PROGRAM"],
    "sqlite3": [":memory:", "create table t(a, b); insert into t values (1, 'x'), (2, 'y'); select sum(a), group_concat(b) from t; select bad;"],
}
# Where it is not the program.
OBJECTS = {"sqlite3": "/libsqlite3.so.0"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(patch_self, tmp_path, program, name):
    path = shutil.which(name, path="/usr/bin")
    if not path:
        pytest.skip(f"no {name} here")
    path = os.path.realpath(path)
    target = program("live/programs/busy.c", "-O1", project.no_runtime()) if "PROGRAM" in PROGRAMS[name] else None
    argv = [path, *(str(target) if arg == "PROGRAM" else arg for arg in PROGRAMS[name])]
    plain = subprocess.run(argv, capture_output=True, cwd=project.REPO, timeout=100)
    done, _, totals = patched(patch_self, tmp_path, OBJECTS.get(name, path), argv, cwd=project.REPO)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    functions, windows, size, failures, entries, exits = map(int, re.findall(r"\d+", totals))
    assert functions > 300 and windows > functions and size > windows and not failures and entries > 1000, totals
    # What does not return: main(), what exits, what a signal or an error leaves by longjmp; and exits that need a probe.
    assert 0 <= entries - exits < entries / 20, totals


COUNTED = r"""
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define FUNCTIONS X(leaf) X(zero) X(tail) X(conditional) X(pointer) X(recursive) X(unlikely) X(switched) X(threaded) X(even) \
	X(odd) X(jumper) X(sum) X(compare)
#define X(name) N_##name,
enum { FUNCTIONS COUNT };
#undef X
#define X(name) #name,
static const char *const names[] = { FUNCTIONS };
volatile unsigned long counts[COUNT];
#define HERE(name) (counts[N_##name] = counts[N_##name] + 1)
#define API __attribute__((noinline, noclone))
static jmp_buf where;
API int leaf(int a) { HERE(leaf); return a + 1; }
API int zero(void) { HERE(zero); return 0; }
API int tail(int a) { HERE(tail); return leaf(a * 2); }
API int conditional(int a) { HERE(conditional); if (a % 3 == 0) return leaf(a); return a * 5; }
API int pointer(int (*to)(int), int a) { HERE(pointer); return to(a); }
API long recursive(long n) { HERE(recursive); return n < 2 ? n : recursive(n - 1) % 1000 * 3 + recursive(n - 2) % 1000 * 2; }
API int unlikely(int a) { HERE(unlikely); if (__builtin_expect(a > 90, 0)) { fprintf(stderr, "%d\n", a); return leaf(a); } return a; }
API int switched(int a, int b)
{
	HERE(switched);
	switch (a) {
	case 0: return b + 1;
	case 1: return b * 3;
	case 2: return leaf(b);
	case 3: return zero() + b;
	case 4: return tail(b);
	case 5: b += 3; break;
	case 6: return b << 3;
	case 7: return -b;
	}
	return b ^ a;
}
API int threaded(const unsigned char *code)
{
	static const void *const labels[] = { &&up, &&down, &&call, &&out };
	int value = 0;
	HERE(threaded);
	goto *labels[*code & 3];
up: value++; code++; goto *labels[*code & 3];
down: value--; code++; goto *labels[*code & 3];
call: value += leaf(value); code++; goto *labels[*code & 3];
out: return value;
}
API int odd(unsigned n);
API int even(unsigned n) { HERE(even); return n ? odd(n - 1) : 1; }
API int odd(unsigned n) { HERE(odd); return n ? even(n - 1) : 0; }
API void jumper(int a) { HERE(jumper); if (a % 7 == 0) longjmp(where, 1); }
API double sum(double a, double b, int n) { HERE(sum); return n ? sum(a + b, b, n - 1) + a : a; }
API int compare(const void *a, const void *b) { HERE(compare); return *(const int *)a - *(const int *)b; }
int main(void)
{
	static const unsigned char code[] = { 0, 0, 2, 1, 2, 3 };
	volatile long result = 0;
	int list[100];
	for (volatile int i = 0; i < 100; i++) {
		result += zero() + tail(i) + conditional(i) + pointer(leaf, i) + unlikely(i) + switched(i % 10, i) + threaded(code + i % 6);
		result += even(i) + (long)sum(i, 2, i % 10);
		if (!setjmp(where)) jumper(i);
		list[i] = (int)(result * 7919 % 1000);
	}
	qsort(list, 100, sizeof(*list), compare);
	printf("%ld %ld %d\n", (long)result, recursive(15), list[50]);
	for (int i = 0; i < COUNT; i++) printf("%s %lu\n", names[i], counts[i]);
}
"""


@pytest.mark.parametrize("compiler", ["gcc", *(f"clang-{version}" for version in project.clang_versions())])
def test_counts(patch_self, tmp_path, program, compiler):
    """The counts equal the program's own counts, for each function that can be patched."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    outputs = set()
    for flags in (["-O0"], ["-O1"], ["-O2"], ["-O3", "-fno-plt"], ["-Os"], ["-O2", "-fno-pie", "-no-pie"],
                  ["-O2", "-fcf-protection=full"]):
        path = program.text("counted", COUNTED, "-fPIE", "-pie", "-falign-functions=16", *flags, clang=compiler, instrument=False)
        plain = subprocess.run([path], capture_output=True, text=True, timeout=20)
        done, counts, _ = patched(patch_self, tmp_path, str(path), [path], text=True)
        assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr), flags
        own = {name: int(count) for name, count in re.findall(r"^([a-z]+) (\d+)$", done.stdout, re.M)}
        symbols = project.run(["nm", path]).stdout
        seen = {name: counts.get(int(re.search(rf"^(\w+) [Tt] {name}$", symbols, re.M)[1], 16), 0) for name in own}
        missing = {name for name in own if not seen[name]}
        assert {name: seen[name] for name in own if name not in missing} == {name: own[name] for name in own if name not in missing}, flags
        # A self-call that became a jump to the first instruction cannot be told from a loop.
        assert missing <= {"sum", "even", "odd"}, flags
        outputs.add(plain.stdout)
    assert len(outputs) == 1
