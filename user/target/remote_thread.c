// SPDX-License-Identifier: BSD-2-Clause
#include "target/remote_thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "target/remote.h"

#define PAGE_BYTES 4096ull

/* Checks for a new status of the thread. Does not reap the thread, because its parent must do that. */
static int poll_status(struct xp_remote_thread *thread, int *status)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, thread->tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
		return errno == ECHILD ? -ESRCH : -errno;
	if (!info.si_pid)
		return 0;
	if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
		return -ESRCH;
	return waitpid(thread->tid, status, WNOHANG | __WALL) == thread->tid;
}

int xp_remote_wait(struct xp_remote_thread *thread, uint64_t deadline_ns, int *status)
{
	const struct timespec pause = { .tv_nsec = XP_REMOTE_POLL_NS };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		int told = poll_status(thread, status);

		if (told == -ESRCH)
			thread->state = XP_REMOTE_GONE;
		if (told)
			return XP_MIN(told, 0);
		if (xp_now_ns() >= deadline_ns)
			return -EBUSY;
		sigtimedwait(&child, NULL, &pause);
	}
}

static bool is_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

int xp_remote_wait_stop(struct xp_remote_thread *thread, uint64_t deadline_ns)
{
	int status, err;

	while (!(err = xp_remote_wait(thread, deadline_ns, &status))) {
		if (is_stop(status)) {
			thread->state = XP_REMOTE_STANDS;
			return 0;
		}
		/*
		 * The thread is about to handle a signal. Any stop consumes the interrupt, so interrupt the thread
		 * again.
		 */
		if (ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0) ||
		    ptrace(PTRACE_CONT, thread->tid, 0, status >> 16 ? 0 : WSTOPSIG(status)))
			return -errno;
	}
	return err;
}

int xp_remote_read(struct xp_remote *remote, uint64_t address, void *to, size_t size)
{
	ssize_t n = xp_program_memory_read(remote->memory, &remote->program, address, to, size);

	return n < 0 ? (int)n : n == (ssize_t)size ? 0 : -EIO;
}

/* ---- writing ---- */

static int write_file(const struct xp_remote *remote, uint64_t address, const uint8_t *from, size_t size)
{
	ssize_t n = pwrite(remote->program.fd, from, size, (off_t)address);

	return n == (ssize_t)size ? 0 : n < 0 ? -errno : n == 0 ? -ESRCH : -EIO;
}

static int poke_word(const struct xp_remote *remote, uint64_t address, const uint8_t *from)
{
	long word;

	memcpy(&word, from, sizeof(word));
	return ptrace(PTRACE_POKETEXT, remote->program_tid, address, word) ? -errno : 0;
}

/*
 * Writes less than a word: reads a whole word of the same page, changes it and writes it back. The other bytes of the
 * word are those after the address, or before it at the end of a page.
 */
static int poke_part(const struct xp_remote *remote, uint64_t address, const uint8_t *from, size_t size)
{
	uint64_t page_end = ((address + size - 1) | (PAGE_BYTES - 1)) + 1;
	uint64_t start = XP_MIN(address, page_end - sizeof(long));
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, remote->program_tid, start, 0);
	if (errno)
		return -errno;
	memcpy((uint8_t *)&word + (address - start), from, size);
	return poke_word(remote, start, (const uint8_t *)&word);
}

/*
 * Writes aligned words; the head of a sled never crosses two of them. The last and the first word may overlap others
 * instead of covering bytes outside the range, because another tool may be changing those bytes.
 */
static int poke(const struct xp_remote *remote, uint64_t address, const uint8_t *from, size_t size)
{
	size_t at;
	int err;

	if (size < sizeof(long))
		return poke_part(remote, address, from, size);
	at = size - sizeof(long);
	while (!(err = poke_word(remote, address + at, from + at)) && at) {
		uint64_t before = (address + at - 1) & ~(sizeof(long) - 1);

		at = before > address ? before - address : 0;
	}
	return err;
}

static int write_some(struct xp_remote *remote, uint64_t address, const uint8_t *from, size_t size)
{
	int err = remote->pokes ? -EIO : write_file(remote, address, from, size);

	if (err == -EIO) {
		err = poke(remote, address, from, size);
		remote->pokes |= !err;
	}
	return err;
}

int xp_remote_write(struct xp_remote *remote, uint64_t address, const void *from, size_t size)
{
	const struct itimerval limit = { .it_value.tv_sec = XP_REMOTE_WRITE_S };
	struct itimerval before;
	int err = 0;

	setitimer(ITIMER_REAL, &limit, &before);
	/* Write the last page first. */
	for (size_t left = size; left && !err;) {
		uint64_t last_page = (address + left - 1) & ~(PAGE_BYTES - 1);
		size_t begin = last_page > address ? last_page - address : 0;

		err = write_some(remote, address + begin, (const uint8_t *)from + begin, left - begin);
		left = begin;
	}
	setitimer(ITIMER_REAL, &before, NULL);
	return err;
}

bool xp_remote_pokes(const struct xp_remote *remote)
{
	return remote->pokes;
}
