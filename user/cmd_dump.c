// SPDX-License-Identifier: BSD-2-Clause
/* `xprof dump FILE...`: prints files of every known format as text. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/file_view.h"
#include "commands.h"
#include "format/formats.h"
#include "model/log_names.h"
#include "model/objects.h"

static const char *name_of(const void *arg, uint32_t function_id)
{
	return xp_log_names_get(arg, function_id);
}

static int dump_log(const struct xp_file_view *view, const char *path, const char *instr_map,
		    struct xp_violation *finding)
{
	struct xp_log_names *log_names = NULL;
	int err = xp_log_names_new(&log_names, path, instr_map);
	const struct xp_function_names names = { .name = name_of, .arg = log_names };

	/* Without names it is still a dump. */
	if (err == -ENOEXEC)
		return err;
	err = xp_format_fdr.dump(view->bytes, view->size, err ? NULL : &names, stdout, finding);
	xp_log_names_free(log_names);
	return err;
}

static enum xp_exit dump_view(const struct xp_file_view *view, const char *name, const char *instr_map)
{
	const struct xp_format *format = xp_format_find(view->bytes, view->size);
	struct xp_violation finding;
	char names[128];
	int err;

	if (!format)
		return xp_fail(XP_EXIT_FAILED, "%s: not a file that xprof can read (%s)", name,
			       xp_format_names(names, sizeof(names)));
	if (format == &xp_format_fdr)
		err = dump_log(view, name, instr_map, &finding);
	else
		err = format->dump(view->bytes, view->size, NULL, stdout, &finding);
	if (!err && fflush(stdout))
		err = -errno;
	if (!err)
		return XP_EXIT_OK;
	fflush(stdout); /* print the records before the message */
	if (err == -EBADMSG)
		xp_error("%s: 0x%" PRIx64 ": %s", name, finding.offset, finding.text);
	else if (err == -ENOEXEC)
		xp_error("%s: " XP_REPORT_NO_INSTR_MAP, instr_map);
	else
		xp_error("%s: cannot print it: %s", name, strerror(-err));
	return XP_EXIT_FAILED;
}

enum xp_exit xp_cmd_dump(const struct xp_options *options)
{
	enum xp_exit result = XP_EXIT_OK;

	for (size_t i = 0; i < options->operand_count; i++) {
		struct xp_file_view view;
		const char *name = options->operands[i];
		int err;

		err = xp_file_view_open(&view, AT_FDCWD, name);
		if (err) {
			xp_error("%s: cannot read it: %s", name, xp_file_view_error(err));
			result = XP_EXIT_FAILED;
			continue;
		}
		if (dump_view(&view, name, options->instr_map))
			result = XP_EXIT_FAILED;
		xp_file_view_close(&view);
	}
	return result;
}
