# SPDX-License-Identifier: BSD-2-Clause
# `sudo make demo` and `sudo make test` install all packages and build; see README.md. `make V=1` shows the commands.

VERSION := 0.1.0

PREFIX ?= /usr/local
DESTDIR ?=
DEPS ?= 1
V ?= 0
O := .output

ifeq ($(origin CC),default)
CC := gcc
endif
PYTHON ?= /usr/bin/python3
INSTALL ?= install

# Returns the first program of $(1) that runs: names and paths differ (clang-19, /usr/sbin outside PATH, Ubuntu's bpftool per kernel).
first_that_runs = $(shell for tool in $(1); do "$$tool" $(2) >/dev/null 2>&1 && echo "$$tool" && break; done)
ifndef CLANG
CLANG := $(or $(call first_that_runs,clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14,--version),clang)
endif
ifndef BPFTOOL
BPFTOOL := $(or $(call first_that_runs,bpftool /usr/sbin/bpftool $(wildcard /usr/lib/linux-tools*/*bpftool \
	   /usr/lib/linux-tools/*/bpftool),version),bpftool)
endif

CFLAGS ?= -O2 -g
XP_WARNINGS := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes
XP_CFLAGS = -std=gnu11 $(XP_WARNINGS) -Iinclude -Iuser -I$(O) -I$(O)/proto -D_GNU_SOURCE -DXPROF_VERSION='"$(VERSION)"' \
	    -pthread $(CFLAGS)
XP_LDLIBS := -lbpf -ldw -lelf -lZydis -lz -lzstd -ljansson -lprotobuf-c -liberty -lm -pthread $(LDLIBS)
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter -Iinclude -Ivmlinux -Ibpf -D__TARGET_ARCH_x86
FUZZ_CFLAGS = $(XP_CFLAGS) -O1 -gline-tables-only -Wno-missing-prototypes -fno-omit-frame-pointer
FUZZ_CHECKS := address,undefined -fno-sanitize-recover=undefined
# lld needs half the time to link a target.
FUZZ_LINKER = $(if $(call first_that_runs,ld.lld,--version),-fuse-ld=lld)
# Links sleds without XRay's runtime, which xprof does not need. Older clangs have another spelling.
NO_RUNTIME = $(shell $(CLANG) -fno-xray-link-deps -E -x c /dev/null >/dev/null 2>&1 && echo -fno-xray-link-deps \
	     || echo -fnoxray-link-deps)
EXAMPLE_FLAGS = -O2 -g -fxray-instrument -fxray-instruction-threshold=1 $(NO_RUNTIME) -pthread

ifeq ($(V),1)
Q :=
say =
else
Q := @
say = @printf '  %-8s %s\n' $(1) $(patsubst $(O)/%,%,$(2));
MAKEFLAGS += --no-print-directory
endif

# The maps are first: libbpf's linker loses the offsets of maps that are used before they are defined. The programs for
# waits are a separate object, because the kernel types that they use would make each load slower.
BPF_OBJS := $(patsubst bpf/%.c,$(O)/bpf/%.o,bpf/maps.bpf.c \
	    $(filter-out bpf/maps.bpf.c bpf/wait.bpf.c,$(wildcard bpf/*.bpf.c)))
USER_SRCS := $(filter-out user/man/%,$(wildcard user/*.c user/*/*.c user/arch/*/*.c))
USER_OBJS := $(USER_SRCS:%.c=$(O)/%.o)
# The generated code of protobuf messages.
PROTO_OBJS := $(patsubst user/format/%.proto,$(O)/proto/%.pb-c.o,$(wildcard user/format/*.proto))
UNIT_BINS := $(patsubst tests/unit/%.c,$(O)/tests/unit/%,$(wildcard tests/unit/*.c))
# The strict checks of files that tests make, and the program that runs them.
CHECK_OBJS := $(patsubst %.c,$(O)/%.o,$(filter-out tests/check/main.c,$(wildcard tests/check/*.c)))
FORMAT_BINS := $(patsubst tests/format/%.c,$(O)/tests/format/%,$(wildcard tests/format/*.c))
# Omits files that no fuzz target links, because compiling them with sanitizers takes long.
NOT_FUZZED := main.c cmd_% record/% budget/% push/% sled/patch% sled/stub_% target/remote%
FUZZ_OBJS := $(patsubst %.c,$(O)/fuzz/%.o,$(filter-out $(NOT_FUZZED:%=user/%),$(USER_SRCS))) $(CHECK_OBJS:$(O)/%=$(O)/fuzz/%)
FUZZ_BINS := $(patsubst tests/fuzz/%.c,$(O)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
EXAMPLES := $(patsubst examples/%.c,$(O)/examples/%,$(wildcard examples/*.c))
PAGES := $(patsubst user/man/%.in,$(O)/man/%,$(wildcard user/man/*.in))
COMPLETIONS := $(O)/man/xprof.bash $(O)/man/xprof.zsh
DOCS := $(PAGES) $(COMPLETIONS)

.PHONY: all
all: xprof $(DOCS)

.DELETE_ON_ERROR:
.SECONDARY:

$(sort $(dir $(BPF_OBJS) $(USER_OBJS) $(PROTO_OBJS) $(UNIT_BINS) $(FORMAT_BINS) $(CHECK_OBJS) $(FUZZ_OBJS) $(FUZZ_BINS) $(EXAMPLES) $(DOCS))):
	$(Q)mkdir -p $@

# This file changes with the version and the flags, so that all objects are rebuilt then.
flags := $(CC) $(XP_CFLAGS) | $(CLANG) $(BPF_CFLAGS) | $(FUZZ_CHECKS)
ifneq ($(file <$(O)/flags),$(flags))
$(shell mkdir -p $(O))
$(file >$(O)/flags,$(flags))
endif
$(O)/flags: ;

# BPF programs and their skeleton

$(O)/bpf/%.bpf.o: bpf/%.bpf.c $(O)/flags | $(O)/bpf/
	$(call say,BPF,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

$(O)/xprof.bpf.o: $(BPF_OBJS)
	$(call say,LINK,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(O)/xprof.skel.h: $(O)/xprof.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name xprof_bpf > $@

$(O)/wait.skel.h: $(O)/bpf/wait.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name wait_bpf > $@

# Messages of protobuf formats

$(O)/proto/%.pb-c.c $(O)/proto/%.pb-c.h: user/format/%.proto | $(O)/proto/
	$(call say,PROTO,$@)
	$(Q)protoc-c --c_out=$(O)/proto --proto_path=user/format $(notdir $<)

$(O)/proto/%.pb-c.o: $(O)/proto/%.pb-c.c $(O)/flags
	$(call say,CC,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -c $< -o $@

# The page of `export --format html` with its style and script, as numbers for C. Its policy contains their checksums,
# and allows no other script.

PAGE_SCRIPTS := $(addprefix user/export/page_,text.js data.js why.js time.js hide.js draw.js table.js menu.js input.js) user/export/page.js

$(O)/export/page.inc: user/export/page.html user/export/page.css $(PAGE_SCRIPTS) $(O)/flags
	$(call say,PAGE,$@)
	$(Q)mkdir -p $(@D) && cat $(PAGE_SCRIPTS) > $(@D)/page.js
	$(Q)sum() { { echo; cat "$$1"; } | sha256sum | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64; }; \
	sed -e "s|@SCRIPT_SUM@|$$(sum $(@D)/page.js)|" -e "s|@STYLE_SUM@|$$(sum user/export/page.css)|" \
		-e '/^@SCRIPT@$$/{r $(@D)/page.js' -e 'd}' -e '/^@STYLE@$$/{r user/export/page.css' -e 'd}' $< | \
		od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g' > $@

# The program

$(O)/user/%.o: user/%.c $(O)/flags
	$(call say,CC,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -c $< -o $@

# Generated headers must exist before the first compilation; later, -MMD finds the dependencies.
$(USER_OBJS) $(FUZZ_OBJS): | $(O)/xprof.skel.h $(O)/wait.skel.h $(O)/export/page.inc $(PROTO_OBJS:.o=.h)
$(foreach object,$(USER_OBJS) $(FUZZ_OBJS),$(eval $(object): | $(dir $(object))))

$(O)/libxprof.a: $(filter-out $(O)/user/main.o,$(USER_OBJS)) $(PROTO_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

xprof $(O)/xprof: $(O)/user/main.o $(O)/libxprof.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(XP_LDLIBS)

# xprof with AddressSanitizer; tests/live/test_sanitized.py runs it if it was built.
.PHONY: asan
asan:
	$(Q)$(MAKE) O=$(O)/asan CFLAGS="-O1 -g -fsanitize=address -fno-omit-frame-pointer" $(O)/asan/xprof

# Man pages and completions, made from the option table

$(O)/man/gen: user/man/gen.c $(filter $(O)/user/option%,$(USER_OBJS)) $(addprefix $(O)/user/,base/array.o base/small_file.o base/text.o base/util.o model/moment.o) | $(O)/man/
	$(call say,CC,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -o $@ $(filter %.c %.o,$^)

# The page xprof-NAME.1 explains the command NAME.
$(PAGES): $(O)/man/%: user/man/%.in $(O)/man/gen
	$(call say,MAN,$@)
	$(Q)$(O)/man/gen man $(patsubst xprof-%,%,$(basename $*)) < $< > $@

$(COMPLETIONS): $(O)/man/xprof.%: $(O)/man/gen
	$(call say,MAN,$@)
	$(Q)$(O)/man/gen $* > $@

# Tests

$(O)/tests/check/%.o: tests/check/%.c $(O)/flags | $(O)/tests/check/ $(O)/libxprof.a
	$(call say,CC,$@)
	$(Q)$(CC) $(XP_CFLAGS) -Itests -MMD -MP -c $< -o $@

$(O)/tests/check/xprof-check: $(O)/tests/check/main.o $(CHECK_OBJS) $(O)/libxprof.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(XP_LDLIBS)

$(O)/tests/unit/%: tests/unit/%.c $(CHECK_OBJS) $(O)/libxprof.a | $(O)/tests/unit/
	$(call say,TEST,$@)
	$(Q)$(CC) $(XP_CFLAGS) -Itests -MMD -MP -MF $@.d -o $@ $< $(CHECK_OBJS) $(O)/libxprof.a $(XP_LDLIBS) -lcmocka

# Programs that the format tests run.
$(O)/tests/format/%: tests/format/%.c $(O)/libxprof.a | $(O)/tests/format/
	$(call say,TEST,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(O)/libxprof.a $(XP_LDLIBS)

$(O)/fuzz/user/%.o: user/%.c $(O)/flags
	$(call say,FUZZCC,$@)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link,$(FUZZ_CHECKS) -MMD -MP -c $< -o $@

$(O)/fuzz/tests/%.o: tests/%.c $(O)/flags
	$(call say,FUZZCC,$@)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -Itests -fsanitize=fuzzer-no-link,$(FUZZ_CHECKS) -MMD -MP -c $< -o $@

$(O)/fuzz/libxprof.a: $(FUZZ_OBJS) $(PROTO_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

$(O)/tests/fuzz/%: tests/fuzz/%.c $(O)/fuzz/libxprof.a | $(O)/tests/fuzz/
	$(call say,FUZZ,$@)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -Itests -fsanitize=fuzzer,$(FUZZ_CHECKS) -MMD -MP -MF $@.d -o $@ $< $(O)/fuzz/libxprof.a $(XP_LDLIBS) $(FUZZ_LINKER)

.PHONY: unit fuzz
unit: $(UNIT_BINS) $(FORMAT_BINS) $(O)/tests/check/xprof-check
fuzz: $(FUZZ_BINS)

# TIME: seconds of CPU for each target.
.PHONY: fuzz-long
TIME ?= 3600
fuzz-long: fuzz
	$(Q)O=$(O) $(PYTHON) -B tests/fuzz/long $(TIME); status=$$?; $(hand_over) exit $$status

# Gives files that root has built to the user who ran sudo, so that the next `make` of this user can replace them.
hand_over = $(if $(SUDO_UID),chown -R "$(SUDO_UID):$(SUDO_GID)" $(O) xprof;)

# make searches for tools when it starts, so a second make runs after packages are installed. TESTS: arguments of
# pytest, such as TESTS="tests/cli -k help". WORKERS: number of workers, if pytest-xdist is installed; 0: none.
.PHONY: test build-tests run-tests
TESTS ?= tests
test:
	$(Q)DEPS=$(DEPS) ./packages.sh build test
	$(Q)$(MAKE) $(all_cpus) build-tests
	$(Q)$(MAKE) run-tests

# The default; -j has priority.
all_cpus = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
pytest = O=$(O) CLANG=$(CLANG) $(PYTHON) -B -m pytest
# Two workers per CPU: for two thirds of its time, a test waits for the kernel to attach and detach probes.
WORKERS ?= $(shell $(PYTHON) -c 'import os, xdist; print(2 * len(os.sched_getaffinity(0)))' 2>/dev/null || echo 0)
workers = $(patsubst %,-n % --dist loadgroup,$(filter-out 0,$(WORKERS)))

build-tests: all unit fuzz $(EXAMPLES) $(O)/pycache/tests

# Once for all workers: it takes 3 s.
$(O)/pycache/tests: $(wildcard tests/*.py tests/*/*.py)
	$(call say,PYTHON,$@)
	$(Q)mkdir -p $(@D) && { $(pytest) --collect-only -q tests > $@ || true; }

run-tests: build-tests
	$(Q)$(pytest) $(workers) $(TESTS); status=$$?; $(hand_over) exit $$status

# Tests on other kernels, in virtual machines: 8 minutes on two CPUs. MACHINES: names from tests/kernels/machines, such
# as MACHINES="6.18.15 newest".
.PHONY: test-kernels run-test-kernels
MACHINES ?= $(shell sed '/^#/d; s/ .*//' tests/kernels/machines)
kernel_versions = $(sort $(foreach machine,$(MACHINES),$(firstword $(subst :, ,$(machine)))))
test-kernels:
	$(Q)DEPS=$(DEPS) ./packages.sh build test kernels
	$(Q)$(MAKE) $(all_cpus) all
	$(Q)$(MAKE) run-test-kernels

run-test-kernels: all $(O)/tests/check/xprof-check
	$(Q)mkdir -p $(O)/kernels && tests/kernels/fetch $(O)/kernels $(kernel_versions) > $(O)/kernels/releases
	$(Q)KERNELS=$(O)/kernels MACHINES="$(MACHINES)" $(pytest) tests/kernels; status=$$?; $(hand_over) exit $$status

# Tests in roots of other Debian releases, on this kernel; the first run takes 20 minutes. Debian sid has the newest
# compilers, perf and llvm-xray. IN_DEBIAN12, IN_DEBIAN13, IN_SID: targets to make there.
.PHONY: test-debian12 test-debian13 test-sid
IN_DEBIAN12 ?= test-deb
IN_DEBIAN13 ?= demo test-deb test
IN_SID ?= test TESTS="tests/format tests/live/test_printed_commands.py tests/live/test_perfdata.py tests/live/test_analyzers.py"
test-debian12: in_root = bookworm .debian12 $(IN_DEBIAN12)
test-debian13: in_root = trixie .debian13 $(IN_DEBIAN13)
test-sid: in_root = sid .sid $(IN_SID)
test-debian12 test-debian13 test-sid:
	$(Q)DEPS=$(DEPS) ./packages.sh debootstrap
	$(Q)tests/debian/run $(in_root); status=$$?; $(hand_over) exit $$status

# The demo prints at most 40 lines, so the build is silent.
.PHONY: demo run-demo
demo:
	$(Q)DEPS=$(DEPS) ./packages.sh build
	$(Q)$(MAKE) -s $(all_cpus) say= all $(EXAMPLES)
	$(Q)$(MAKE) run-demo

run-demo: all $(EXAMPLES)
	$(Q)O=$(O) examples/demo; status=$$?; $(hand_over) exit $$status

# Makes the pictures of README.md: see docs/pictures.
.PHONY: pictures run-pictures
pictures:
	$(Q)DEPS=$(DEPS) ./packages.sh build pictures
	$(Q)$(MAKE) run-pictures

run-pictures: all $(EXAMPLES)
	$(Q)$(PYTHON) -B docs/pictures $(O)/examples/server; status=$$?; \
		$(if $(SUDO_UID),chown "$(SUDO_UID):$(SUDO_GID)" docs/*;) $(hand_over) exit $$status

# Measurements. BENCH: arguments of tests/bench/run, such as BENCH=--quick.

BENCH_FLAGS = -O2 -g -pthread -fxray-instrument -fxray-instruction-threshold=1000000 -fxray-ignore-loops $(NO_RUNTIME)
BENCH_PROGRAMS := $(addprefix $(O)/bench/,target target-entry target-plain target-runtime target-uftrace many connects empty empty.bpf.o busy \
		  tick load graded deep pingpong empty_switch.bpf.o large)

$(O)/bench/:
	$(Q)mkdir -p $@

$(O)/bench/target: tests/bench/target.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(BENCH_FLAGS) -o $@ $<

# Built with XRay's runtime; and for uftrace, which patches its own prologues.
$(O)/bench/target-runtime: tests/bench/target.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(filter-out $(NO_RUNTIME),$(BENCH_FLAGS)) -o $@ $<

$(O)/bench/target-uftrace: tests/bench/target.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CC) -O2 -g -pthread -mfentry -mnop-mcount -pg -fcf-protection=none -no-pie -fno-pie -o $@ $<

$(O)/bench/target-plain: tests/bench/target.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CC) -O2 -g -pthread -Wno-attributes -o $@ $<

$(O)/bench/target-entry: tests/bench/target.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(BENCH_FLAGS) -fxray-instrumentation-bundle=function-entry -o $@ $<

$(O)/bench/many $(O)/bench/connects: $(O)/bench/%: tests/bench/%.c tests/bench/many.h | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(BENCH_FLAGS) -O1 -g0 -o $@ $<

$(O)/bench/empty: tests/bench/empty.c $(O)/libxprof.a | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(O)/libxprof.a $(XP_LDLIBS)

$(O)/bench/busy $(O)/bench/tick $(O)/bench/pingpong: $(O)/bench/%: tests/bench/%.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CC) -O1 -g -fno-omit-frame-pointer -pthread -o $@ $<

$(O)/bench/deep: tests/bench/deep.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CC) -O2 -g -fomit-frame-pointer -pthread -o $@ $<

$(O)/bench/load: tests/live/programs/load.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(EXAMPLE_FLAGS) -o $@ $<

$(O)/bench/graded: tests/bench/graded.c | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(BENCH_FLAGS) -o $@ $<

# Makes a program of 100 MB in seconds: links one object many times, each time with another name for its entry.
LARGE_PARTS := $(shell seq 72)
$(O)/bench/large-part.o: tests/bench/large_part.cc | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) -std=c++17 -O1 -g -c -o $@.groups $< && ld -r --force-group-allocation -o $@ $@.groups && rm $@.groups

$(O)/bench/large: tests/bench/large.c $(O)/bench/large-part.o
	$(call say,BENCH,$@)
	$(Q)for i in $(LARGE_PARTS); do \
		objcopy --redefine-sym part=part$$i --keep-global-symbol=part$$i $(O)/bench/large-part.o $@.part$$i.o || exit; \
	done
	$(Q)$(CLANG) $(BENCH_FLAGS) '-DPARTS=$(patsubst %,P(%),$(LARGE_PARTS))' -o $@ $< $(LARGE_PARTS:%=$@.part%.o) -lstdc++
	$(Q)rm $(LARGE_PARTS:%=$@.part%.o)

$(O)/bench/%.bpf.o: tests/bench/%.bpf.c $(O)/flags | $(O)/bench/
	$(call say,BENCH,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

.PHONY: bench run-bench
bench:
	$(Q)DEPS=$(DEPS) ./packages.sh build test bench
	$(Q)$(MAKE) run-bench

run-bench: all $(BENCH_PROGRAMS)
	$(Q)O=$(O) $(PYTHON) -B tests/bench/run $(BENCH); status=$$?; $(hand_over) exit $$status

# Examples

$(O)/examples/%: examples/%.c | $(O)/examples/
	$(call say,EXAMPLE,$@)
	$(Q)$(CLANG) $(EXAMPLE_FLAGS) -o $@ $<

.PHONY: examples
examples: $(EXAMPLES)

# Installation

bindir := $(PREFIX)/bin
mandir := $(PREFIX)/share/man
bashdir := $(PREFIX)/share/bash-completion/completions
zshdir := $(PREFIX)/share/zsh/site-functions
# Installs the page xprof.1 as man1/xprof.1.
page_paths := $(foreach page,$(notdir $(PAGES)),man$(patsubst .%,%,$(suffix $(page)))/$(page))

.PHONY: install uninstall
install: all
	$(Q)$(INSTALL) -d "$(DESTDIR)$(bindir)" "$(DESTDIR)$(bashdir)" "$(DESTDIR)$(zshdir)"
	$(Q)$(INSTALL) -m 755 xprof "$(DESTDIR)$(bindir)/xprof"
	$(Q)for page in $(page_paths); do \
		$(INSTALL) -D -m 644 "$(O)/man/$${page##*/}" "$(DESTDIR)$(mandir)/$$page" || exit; done
	$(Q)$(INSTALL) -m 644 $(O)/man/xprof.bash "$(DESTDIR)$(bashdir)/xprof"
	$(Q)$(INSTALL) -m 644 $(O)/man/xprof.zsh "$(DESTDIR)$(zshdir)/_xprof"

uninstall:
	$(Q)rm -f "$(DESTDIR)$(bindir)/xprof" "$(DESTDIR)$(bashdir)/xprof" "$(DESTDIR)$(zshdir)/_xprof"
	$(Q)for page in $(page_paths); do rm -f "$(DESTDIR)$(mandir)/$$page"; done

# Packages

# dpkg-buildpackage requires the package's files in debian/ of a source tree.
deb_tree := $(O)/deb/xprof-$(VERSION)

.PHONY: deb test-deb
deb:
	$(Q)DEPS=$(DEPS) ./packages.sh build package
	$(Q)rm -rf $(O)/deb && mkdir -p $(deb_tree)
	$(Q)tar -c --exclude=./.git --exclude=./.output --exclude='./.[ds]*' --exclude=./xprof --exclude='./xprof.out*' . | tar -x -C $(deb_tree)
	$(Q)mv $(deb_tree)/packaging/debian $(deb_tree)/debian
	$(Q)cd $(deb_tree) && env -u MAKEFLAGS -u MAKELEVEL dpkg-buildpackage --build=binary --unsigned-changes --no-pre-clean
	$(Q)$(hand_over) ls $(O)/deb/*.deb

# Installs and removes the package; run it in a separate root, such as that of tests/debian/run.
test-deb: deb
	$(Q)DEPS=$(DEPS) ./packages.sh package-test
	$(Q)tests/debian/package $(O)/deb

.PHONY: clean
clean:
	$(Q)rm -rf $(O) xprof

-include $(wildcard $(O)/*/*.d $(O)/*/*/*.d $(O)/*/*/*/*.d $(O)/*/*/*/*/*.d)
