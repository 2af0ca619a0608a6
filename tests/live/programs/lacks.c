// SPDX-License-Identifier: BSD-2-Clause
/*
 * A library to preload. The kernel then lacks the feature that $LACKS names. writes: to code through /proc/PID/mem.
 * pokes: with ptrace. multi: uprobe_multi. btf. confidence: lockdown in mode confidentiality. Any other word: the
 * verifier refuses the BPF program of that name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UPROBE_MULTI 48

static int lacks(const char *word)
{
	const char *all = getenv("LACKS");
	size_t bytes = strlen(word);

	for (const char *at = all; at && (at = strstr(at, word)); at += bytes)
		if ((at == all || at[-1] == ' ') && (!at[bytes] || at[bytes] == ' '))
			return 1;
	return 0;
}

static long fail(int error)
{
	errno = error;
	return -1;
}

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result < 0 && result > -4096 ? fail((int)-result) : result;
}

long syscall(long number, ...)
{
	const union bpf_attr *attr;
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	attr = (const union bpf_attr *)a[1];
	if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && attr->prog_name[0] && lacks(attr->prog_name))
		return fail(EINVAL);
	if (number == SYS_bpf && a[0] == BPF_LINK_CREATE && attr->link_create.attach_type == UPROBE_MULTI &&
	    lacks("multi"))
		return fail(EINVAL);
	return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* path: /proc/PID/task/TID/mem */
static int is_protected(const char *path, unsigned long address)
{
	unsigned long start, end;
	char maps[80], line[512], write;
	int found = 0;
	FILE *file;

	snprintf(maps, sizeof(maps), "%s", path);
	strcpy(strrchr(maps, '/'), "/maps");
	file = fopen(maps, "r");
	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%lx-%lx %*c%c", &start, &end, &write) == 3 && address >= start && address < end;
	if (file)
		fclose(file);
	return found && write != 'w';
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	char link[64], path[64] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (lacks("writes") && readlink(link, path, sizeof(path) - 1) > 4 && !strncmp(path, "/proc/", 6) &&
	    is_protected(path, (unsigned long)offset))
		return fail(EIO);
	return call(SYS_pwrite64, fd, (long)bytes, (long)size, offset, 0, 0);
}

long ptrace(enum __ptrace_request request, ...)
{
	long (*real)(enum __ptrace_request, ...) = dlsym(RTLD_NEXT, "ptrace");
	long pid, address, data;
	va_list list;

	va_start(list, request);
	pid = va_arg(list, long);
	address = va_arg(list, long);
	data = va_arg(list, long);
	va_end(list);
	return request == PTRACE_POKETEXT && lacks("pokes") ? fail(EIO) : real(request, pid, address, data);
}

int access(const char *path, int mode)
{
	if (lacks("btf") && !strcmp(path, "/sys/kernel/btf/vmlinux"))
		return (int)fail(ENOENT);
	return (int)call(SYS_access, (long)path, mode, 0, 0, 0, 0);
}

int open(const char *path, int flags, ...)
{
	va_list list;
	int mode;

	va_start(list, flags);
	mode = va_arg(list, int);
	va_end(list);
	if (lacks("confidence") && !strcmp(path, "/sys/kernel/security/lockdown")) {
		int fd = memfd_create("lockdown", MFD_CLOEXEC);
		(void)!write(fd, "none integrity [confidentiality]\n", 33);
		lseek(fd, 0, SEEK_SET);
		return fd;
	}
	return (int)call(SYS_open, (long)path, flags, mode, 0, 0, 0);
}
