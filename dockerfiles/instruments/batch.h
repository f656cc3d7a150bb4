/* What the launcher and the agent share: what is started, and what it cost. */
#ifndef BATCH_H
#define BATCH_H

#include "evict.h"

#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_NOT_STARTED = 127, EXIT_SIGNAL_BASE = 128 };

struct options {
    long repeat;
    long parallel;
    const char *evicted;
    bool last_cpu;
    bool discard_stdout;
    bool feed; /* the agent's: stdin is a pipe */
    char **program;
};

/* One process, or all that were started at once: from the first one's start to the last one's end, their costs added
 * up, the peak of the largest, and how the first that failed ended. */
struct batch {
    struct timespec start;
    struct timespec stop;
    struct rusage usage;
    int status;
    struct residue residue;
};

void die(const char *what, int error);

/* Ends the process with the usage unless the words are options, `--` and a program. */
struct options parse_options(char **argument);

void add_process(struct batch *batch, const struct rusage *one, int status);

/* As a shell says it, so that a killed process never looks like a success. */
int exit_code(int status);

/* One line of JSON. */
void print_cost(FILE *to, const struct batch *batch, const struct options *options);

/* Pins this process, because posix_spawn cannot pin the child, which inherits it. */
void pin_to_last_cpu(void);

#endif
