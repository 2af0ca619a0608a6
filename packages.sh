#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Lists the packages that xprof needs, and installs missing ones with apt.
#
# Usage: packages.sh PURPOSE...     (DEPS=0: install nothing, only print the missing packages)
set -u

# Purpose, then alternative names, because Debian 12 and 13 and Ubuntu 24.04 differ. The first name that apt knows is
# installed. "optional" at the end: not required if apt knows none.
list='
build	gcc
build	make
build	libc6-dev
build	clang
build	bpftool linux-tools-generic
build	libbpf-dev
build	libelf-dev
build	libdw-dev
build	libiberty-dev
build	libzydis-dev
build	zlib1g-dev
build	libzstd-dev
build	libjansson-dev
build	libcurl4-openssl-dev
build	libprotobuf-c-dev
build	protobuf-c-compiler
test	g++
test	libcmocka-dev
test	python3
test	python3-pytest
test	python3-pytest-xdist
test	groff-base
test	binutils
test	bsdutils
test	less
test	zsh optional
test	llvm
test	libclang-rt-dev libclang-rt-14-dev libclang-rt-18-dev libclang-rt-19-dev
test	clang-14 clang-17 optional
test	llvm-14 llvm-17 optional
test	libclang-rt-14-dev libclang-rt-17-dev optional
test	clang-19 clang-18 optional
test	llvm-19 llvm-18 optional
test	libclang-rt-19-dev libclang-rt-18-dev optional
test	google-perftools
test	file
test	libgoogle-perftools-dev
test	golang-go
test	golang-github-google-pprof-dev
test	openssl
test	lld optional
test	strace
test	gdb
test	nodejs optional
test	php-cli optional
test	php-opcache php8.2-opcache optional
test	openjdk-17-jdk-headless default-jdk-headless optional
test	erlang-base optional
test	linux-perf linux-tools-generic optional
test	nodejs optional
test	php-cli optional
test	sqlite3 optional
test	musl-tools optional
test	chromium optional
pictures	chromium
pictures	python3
kernels	qemu-system-x86
kernels	busybox-static busybox
kernels	debian-archive-keyring
debootstrap	debootstrap
package	build-essential
package	debhelper
package	dpkg-dev
package-test	lintian
package-test	procps
package-test	systemd
package-test	man-db
package-test	python3-seccomp
bench	linux-perf linux-tools-generic optional
bench	bpftrace optional
bench	uftrace optional
'

installed()
{
	[[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

known()
{
	[[ -n $(apt-cache --quiet=0 policy "$1" 2>/dev/null | grep -v '(none)' | grep Candidate:) ]]
}

# Prints the alternatives of each line without an installed package.
missing()
{
	local purpose names name found
	while read -r purpose names; do
		[[ " $* " == *" $purpose "* ]] || continue
		found=
		for name in ${names% optional}; do
			installed "$name" && found=1 && break
		done
		[[ $found ]] || echo "$names"
	done <<<"$list"
}

# Prints the first known name of each line; prints an error for lines without a known name.
choose()
{
	local names name
	while read -r names; do
		for name in ${names% optional}; do
			known "$name" && echo "$name" && continue 2
		done
		[[ $names == *" optional" ]] || echo "packages.sh: apt knows none of: $names" >&2
	done
}

if ! command -v dpkg-query >/dev/null; then
	echo "packages.sh: no Debian package system here; see the list in this file for what is needed" >&2
	exit 0
fi
absent=$(missing "$@")
if [[ -z $absent ]]; then
	exit 0
fi
if [[ ${DEPS:-1} == 0 ]]; then
	echo "packages.sh: not installed (one name of each line): " >&2
	sed 's/^/  /; s/ optional$/  (optional)/' <<<"$absent" >&2
	exit 0
fi
# A machine that has never fetched package lists has none.
if [[ $(id -u) == 0 ]] && ! known gcc; then
	apt-get update -qq || exit 1
fi
mapfile -t packages < <(choose <<<"$absent")
if ((${#packages[@]} == 0)); then
	exit 0
fi
if [[ $(id -u) != 0 ]]; then
	echo "packages.sh: missing; run: sudo apt-get install ${packages[*]}" >&2
	exit 1
fi
echo "packages.sh: installing ${packages[*]}"
# dpkg prints a few lines for each package; errors go to stderr.
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" > /dev/null ||
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "${packages[@]}" > /dev/null; }
