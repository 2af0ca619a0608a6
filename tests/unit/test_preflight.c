/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include "kernel/preflight.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(kernel_versions)
{
	unsigned int major, minor;

	assert_true(xp_kernel_version_parse("6.18.44-cloud", &major, &minor));
	assert_int_equal(major, 6);
	assert_int_equal(minor, 18);
	assert_true(xp_kernel_version_parse("5.15", &major, &minor));
	assert_int_equal(minor, 15);
	assert_false(xp_kernel_version_parse("linux", &major, &minor));
	assert_false(xp_kernel_version_parse("6", &major, &minor));
	assert_false(xp_kernel_version_parse("", &major, &minor));
}

TEST(lockdown_modes)
{
	char mode[16];

	xp_lockdown_parse("none [integrity] confidentiality", mode, sizeof(mode));
	assert_string_equal(mode, "integrity");
	xp_lockdown_parse("none integrity [confidentiality]\n", mode, sizeof(mode));
	assert_string_equal(mode, "confidentiality");
	xp_lockdown_parse("none", mode, sizeof(mode));
	assert_string_equal(mode, "");
	xp_lockdown_parse("[none", mode, sizeof(mode));
	assert_string_equal(mode, "");
}

static const struct xp_check_result *result_of(const struct xp_preflight *preflight, const char *name)
{
	for (size_t i = 0; i < preflight->count; i++)
		if (!strcmp(preflight->results[i].name, name))
			return &preflight->results[i];
	fail_msg("no check %s", name);
	return NULL;
}

TEST(results_are_whole)
{
	struct xp_preflight preflight;

	xp_preflight_run(&preflight);
	assert_true(preflight.count > 10);
	for (size_t i = 0; i < preflight.count; i++) {
		const struct xp_check_result *result = &preflight.results[i];

		assert_true(result->name[0] && result->need[0] && result->detail[0]);
		assert_true(result->state != XP_CHECK_MISSING || (result->remedy && result->remedy[0]));
		assert_true(result->state != XP_CHECK_OK || !result->remedy);
	}
	/* Checks the same facts with another source. */
	assert_int_equal(result_of(&preflight, "BTF")->state == XP_CHECK_OK, !access("/sys/kernel/btf/vmlinux", R_OK));
	assert_int_equal(result_of(&preflight, "uprobe_multi")->state == XP_CHECK_OK, preflight.has_uprobe_multi);
	assert_int_equal(result_of(&preflight, "uprobes")->state == XP_CHECK_OK, preflight.has_uprobe);
}

/* No check leaves a descriptor open. */
TEST(no_descriptor_leaks)
{
	struct xp_preflight preflight;
	int before = dup(0), after;

	close(before);
	xp_preflight_run(&preflight);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
}

TEST(kernels_from_6_6_have_uprobe_multi)
{
	struct xp_preflight preflight;
	unsigned int major, minor;

	xp_preflight_run(&preflight);
	if (!preflight.privileged) {
		print_message("skipped: only root can try\n");
		skip();
	}
	assert_true(xp_kernel_version_parse(result_of(&preflight, "kernel")->detail, &major, &minor));
	assert_int_equal(preflight.has_uprobe_multi, major > 6 || (major == 6 && minor >= 6));
}

/* A user without privileges gets one message, which mentions sudo. */
TEST(without_privilege)
{
	char text[4096] = "";
	ssize_t n;
	int pipe_fds[2], status;
	pid_t child;

	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	if (!child) {
		struct xp_preflight preflight;
		enum xp_exit code;

		dup2(pipe_fds[1], STDERR_FILENO);
		if (!geteuid() && setresuid(65534, 65534, 65534))
			_exit(99);
		xp_preflight_run(&preflight);
		code = xp_preflight_require(&preflight);
		_exit(preflight.privileged ? 98 : code);
	}
	close(pipe_fds[1]);
	for (size_t used = 0; (n = read(pipe_fds[0], text + used, sizeof(text) - 1 - used)) > 0;)
		used += n;
	close(pipe_fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), XP_EXIT_ENVIRONMENT);
	assert_non_null(strstr(text, "privilege: user "));
	assert_non_null(strstr(text, "sudo"));
	assert_null(strstr(text, "uprobe"));
}

/* Each missing feature is reported once, with its remedy. A slower feature is not reported. */
TEST(requirements)
{
	struct xp_preflight preflight = {
		.results = {
			{ .name = "a", .need = "x", .state = XP_CHECK_OK },
			{ .name = "b", .need = "y", .state = XP_CHECK_DEGRADED },
			{ .name = "c", .need = "z", .state = XP_CHECK_UNTESTED },
		},
		.count = 3,
	};

	assert_int_equal(xp_preflight_require(&preflight), XP_EXIT_OK);
	preflight.results[1].state = XP_CHECK_MISSING;
	preflight.results[1].remedy = "do it (this line belongs to the test)";
	assert_int_equal(xp_preflight_require(&preflight), XP_EXIT_ENVIRONMENT);
}
