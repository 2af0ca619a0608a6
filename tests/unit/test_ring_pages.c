/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of call rings: they are freed, or a process holds their lock. */
#include "unit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sled/call_rings.h"
#include "sled/ring_pages.h"

#define PAGE 4096u
#define FILES 40

static int new_file(void)
{
	int fd = memfd_create("rings", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)XP_CALL_RINGS_BYTES), 0);
	assert_int_equal(pwrite(fd, "x", 1, 3 * PAGE), 1);
	return fd;
}

static void wait_for_all(void)
{
	for (int i = 0; i < 2000 && xp_ring_pages_pending(); i++)
		usleep(10000);
	assert_int_equal(xp_ring_pages_pending(), 0);
}

TEST(test_all_go_back)
{
	int files[FILES];
	struct stat st;

	for (int i = 0; i < FILES; i++) {
		files[i] = new_file();
		xp_ring_pages_give_back(files[i]);
	}
	wait_for_all();
	for (int i = 0; i < FILES; i++) {
		assert_int_equal(fstat(files[i], &st), 0);
		assert_int_equal(st.st_blocks, 0);
		close(files[i]);
	}
}

static int held_fd;

/* Holds the lock of the file until the file's page exists. */
static void *write_held(void *page)
{
	(void)!pwrite(held_fd, page, 1, 0);
	return NULL;
}

TEST(test_a_process_that_holds_the_lock)
{
	struct uffdio_api api = { .api = UFFD_API };
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register memory = { .range = { (uintptr_t)page, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)page, PAGE } };
	uint8_t fault[256];
	pthread_t thread;

	if (uffd < 0) {
		print_message("skipped: no userfaultfd\n");
		skip();
	}
	held_fd = new_file();
	assert_int_equal(ioctl(uffd, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(uffd, UFFDIO_REGISTER, &memory), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_held, page), 0);
	assert_true(read(uffd, fault, sizeof(fault)) > 0);
	/* The child hangs, and the user gets no further one. */
	for (int i = 0; i < FILES; i++)
		xp_ring_pages_give_back(held_fd);
	assert_int_equal(xp_ring_pages_pending(), 1);
	assert_int_equal(ioctl(uffd, UFFDIO_ZEROPAGE, &zero), 0);
	pthread_join(thread, NULL);
	wait_for_all();
	close(uffd);
	close(held_fd);
	munmap(page, PAGE);
	/* The child has ended: the next ones work. */
	test_all_go_back(state);
}
