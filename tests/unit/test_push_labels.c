/* SPDX-License-Identifier: BSD-2-Clause */
#include "push/push_labels.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define ID16 "0123456789abcdef"
#define ID ID16 ID16 ID16 ID16

TEST(services)
{
	static const struct {
		const char *cgroup, *service;
	} known[] = {
		{ "/system.slice/nginx.service", "nginx.service" },
		{ "/system.slice/nginx.service/worker/a", "nginx.service" },
		{ "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service", "sync.service" },
		{ "/user.slice/user-1000.slice/user@1000.service/init.scope", "comm" },
		{ "/user.slice/user-1000.slice/user@1000.service", "comm" },
		{ "/user.slice/user-1000.slice/session-3.scope", "comm" },
		{ "/system.slice/a.service/session.scope", "comm" },
		{ "/system.slice/docker-" ID ".scope", "container-0123456789ab" },
		{ "/docker/" ID, "container-0123456789ab" },
		{ "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope", "container-0123456789ab" },
		{ "/kubepods/burstable/pod1/" ID, "container-0123456789ab" },
		{ "/machine.slice/libpod-" ID ".scope/container", "container-0123456789ab" },
		{ "/docker/" ID "/system.slice/inner.service", "inner.service" },
		{ "/docker/0123456789ab", "comm" },
		{ "/docker/x" ID, "comm" },
		{ "/docker/" ID "0", "comm" },
		{ "/.service", "comm" },
		{ "/a\n\x01.service", "a??.service" },
		{ "/", "comm" },
		{ "", "comm" },
		{ NULL, "comm" },
	};
	char service[XP_PUSH_VALUE_BYTES_MAX + 1];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		xp_push_service(service, known[i].cgroup, "comm");
		assert_string_equal(service, known[i].service);
	}
	xp_push_service(service, NULL, "");
	assert_string_equal(service, "unknown");
	xp_push_service(service, NULL, "a\xff\x1b[2J");
	assert_string_equal(service, "a??[2J");
}

/* A systemd unit may have a name of 255 bytes, with any bytes that its creator chose. */
TEST(long_names)
{
	char cgroup[512] = "/system.slice/", service[XP_PUSH_VALUE_BYTES_MAX + 1];

	memset(cgroup + strlen(cgroup), 'x', 200);
	strcat(cgroup, ".service");
	xp_push_service(service, cgroup, "comm");
	assert_string_equal(service, "comm");
	memset(cgroup, 0, sizeof(cgroup));
	for (int i = 0; i < 100; i++)
		strcat(cgroup, "\xc3\xa4"); /* the limit does not split a character */
	xp_push_label_value(service, cgroup);
	assert_int_equal(strlen(service), XP_PUSH_VALUE_BYTES_MAX);
	memmove(cgroup + 1, cgroup, 200);
	cgroup[0] = 'x';
	xp_push_label_value(service, cgroup);
	assert_int_equal(strlen(service), XP_PUSH_VALUE_BYTES_MAX - 1);
}
