// SPDX-License-Identifier: BSD-2-Clause
#include "base/fd_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

union control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

ssize_t xp_fd_message_send(int socket, const void *message, size_t bytes, int fd)
{
	struct iovec part = { (void *)message, bytes };
	union control control = { 0 };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t sent;

	if (fd >= 0) {
		struct cmsghdr *rights = &control.align;

		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(rights), &fd, sizeof(int));
		header.msg_control = &control;
		header.msg_controllen = sizeof(control);
	}
	do
		sent = sendmsg(socket, &header, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

ssize_t xp_fd_message_receive(int socket, void *message, size_t bytes, int *fd)
{
	struct iovec part = { message, bytes };
	union control control;
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *rights;
	ssize_t got;

	*fd = -1;
	do
		got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	rights = CMSG_FIRSTHDR(&header);
	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
	    rights->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(rights), sizeof(int));
	return got;
}
