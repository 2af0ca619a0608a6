// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Program on USDT probes: reads the arguments of a place into a record; the uprobe's cookie is the index of the place.
 * A record never wakes xprof.
 */
#include "common.bpf.h"
#include "registers.bpf.h"

/* The loader fills in an element before it attaches the place, and sets max_entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct xp_usdt_place);
} usdt_places SEC(".maps");

/* Set by the loader: record only processes in `targets`, because the uprobes are on every process of a binary. */
const volatile bool usdt_only_targets = false;

static __noinline __u64 register_or_zero(struct pt_regs *ctx, __u32 number)
{
	__u64 value = 0;

	if (number == XP_USDT_IP)
		value = ctx->ip;
	else if (number < XP_USDT_IP)
		value = register_value(ctx, number);
	return value;
}

/* Reads an operand into *to. Returns false after an error. */
static __noinline bool read_operand(struct pt_regs *ctx, const struct xp_usdt_operand *operand, __u64 *to)
{
	__u64 value = operand->value, bytes = operand->bytes & 15, unused;

	if (bytes > sizeof(*to))
		return false;
	unused = 64 - 8 * bytes;
	if (operand->kind == XP_USDT_REGISTER)
		value = register_or_zero(ctx, operand->base);
	else if (operand->kind != XP_USDT_CONSTANT) {
		value += register_or_zero(ctx, operand->base);
		value += register_or_zero(ctx, operand->index) << (operand->shift & 3);
		if (operand->kind != XP_USDT_MEMORY || bpf_probe_read_user(to, bytes, (const void *)value)) {
			*to = 0;
			return false;
		}
		value = *to;
	}
	value <<= unused & 63;
	*to = operand->is_signed ? (__u64)((__s64)value >> (unused & 63)) : value >> (unused & 63);
	return true;
}

SEC("uprobe")
int usdt_probe(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 index = bpf_get_attach_cookie(ctx);
	struct xp_usdt_place *place;
	struct xp_event_usdt *event;

	if (usdt_only_targets && !followed(pid_tgid >> 32))
		return 0;
	place = bpf_map_lookup_elem(&usdt_places, &index);
	if (!place)
		return 0;
	event = reserve(sizeof(*event), XP_EVENT_USDT);
	if (!event)
		return 0;
	fill(&event->head, bpf_ktime_get_ns(), pid_tgid, ctx->sp, index, XP_EVENT_USDT);
	event->ip = ctx->ip;
	event->missing = event->pad = 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	for (__u32 i = 0; i < XP_USDT_ARGS_MAX; i++) {
		event->args[i] = 0;
		if (i < place->count && !read_operand(ctx, &place->operands[i], &event->args[i]))
			event->missing |= 1u << i;
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}
