/* SPDX-License-Identifier: BSD-2-Clause */
/* Reduces a stack to functions of the program. Kernel functions are used only if the stack has no others. */
#ifndef XPROF_MODEL_STACK_SHAPES_H
#define XPROF_MODEL_STACK_SHAPES_H

#include "model/model.h"

/*
 * Sets a number for each stack, which is the same for stacks with the same functions at different addresses. The caller
 * frees shapes, also after an error. Returns 0 or -ENOMEM.
 */
int xp_stack_shapes(const struct xp_model *model, uint64_t **shapes);

/* The shown names of the functions of a stack, the innermost first. Returns how many there are; at most max are in
 * names[].
 */
size_t xp_stack_frames(const struct xp_model *model, uint32_t stack, const char **names, size_t max);

#endif
