# SPDX-License-Identifier: BSD-2-Clause
# xprof: `sudo make demo` and `sudo make test` do all the set-up; see README.md.

PREFIX ?= /usr/local
DESTDIR ?=
DEPS ?= 1
V ?= 0

O := .output
VERSION := 0.1.0

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= bpftool
PKG_CONFIG ?= pkg-config

CFLAGS ?= -O2 -g
XP_CFLAGS := -std=gnu11 -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Iinclude -Iuser -I$(O) \
	     -D_GNU_SOURCE -DXPROF_VERSION='"$(VERSION)"' $(CFLAGS)
XP_LDLIBS := -lbpf -ldw -lelf -lz -ljansson $(LDLIBS)
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter -Iinclude -Ivmlinux -Ibpf -D__TARGET_ARCH_x86

ifeq ($(V),1)
Q :=
say =
else
Q := @
say = @printf '  %-8s %s\n' $(1) $(patsubst $(O)/%,%,$(2));
MAKEFLAGS += --no-print-directory
endif

BPF_SRCS := $(wildcard bpf/*.bpf.c)
BPF_OBJS := $(BPF_SRCS:bpf/%.c=$(O)/bpf/%.o)
USER_SRCS := $(wildcard user/*.c)
USER_OBJS := $(USER_SRCS:user/%.c=$(O)/user/%.o)
LIB_OBJS := $(filter-out $(O)/user/main.o,$(USER_OBJS))
UNIT_SRCS := $(wildcard tests/unit/*.c)
UNIT_BINS := $(UNIT_SRCS:tests/unit/%.c=$(O)/tests/unit/%)

.PHONY: all
all: xprof

.DELETE_ON_ERROR:
.SECONDARY:

$(O)/bpf $(O)/user $(O)/tests/unit:
	$(Q)mkdir -p $@

$(O)/bpf/%.bpf.o: bpf/%.bpf.c | $(O)/bpf
	$(call say,BPF,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

$(O)/xprof.bpf.o: $(BPF_OBJS)
	$(call say,LINK,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(O)/xprof.skel.h: $(O)/xprof.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name xprof_bpf > $@

$(O)/user/%.o: user/%.c | $(O)/user
	$(call say,CC,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -c $< -o $@

# The skeleton must exist before the first compilation; -MMD keeps it right from then on.
$(USER_OBJS): | $(O)/xprof.skel.h

$(O)/libxprof.a: $(LIB_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

xprof: $(O)/user/main.o $(O)/libxprof.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(XP_LDLIBS)

$(O)/tests/unit/%: tests/unit/%.c $(O)/libxprof.a | $(O)/tests/unit
	$(call say,TEST,$@)
	$(Q)$(CC) $(XP_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(O)/libxprof.a $(XP_LDLIBS) -lcmocka

.PHONY: unit-bins
unit-bins: $(UNIT_BINS)

.PHONY: clean
clean:
	$(Q)rm -rf $(O) xprof

-include $(wildcard $(O)/*/*.d $(O)/tests/unit/*.d)
