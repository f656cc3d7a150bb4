#ifndef STACKS_METHOD_H
#define STACKS_METHOD_H

#include "counts.h"
#include "profiler.h"
#include "stacks.h"
#include "stacked.skel.h"

/* Before the program is loaded, after it, and at the end. */
void prepare_stacks(struct syscalls *program, const struct target *target);
void fill_stacks(struct syscalls *program);

/* Prints `, "stacks": {...}, "sites": [...], "edges": [...]`. */
void print_stacks(const struct syscalls *program, const char *const *phases, unsigned phase_count);

#endif
