// SPDX-License-Identifier: BSD-2-Clause
/* A program under a seccomp filter that kills it at the first system call that is not its own. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNTRACED __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))

TRACED static long leaf(long n)
{
	__asm__ volatile("");
	return n + 1;
}

#define ALLOW(number)                                                                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

UNTRACED int main(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_write),
		ALLOW(SYS_clock_nanosleep),
		ALLOW(SYS_restart_syscall),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 2;
	if (write(1, "ready\n", 6) != 6)
		return 2;
	for (long n = 0;; n++) {
		if (leaf(n) != n + 1)
			return 3;
		usleep(1000);
	}
}
