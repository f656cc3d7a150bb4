#define _GNU_SOURCE
#include "batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { MOST_IN_TURN = 1000000, MOST_AT_ONCE = 1024 };

static void usage(void) {
    fputs("usage: launch [--repeat N] [--parallel N] [--cpu last] [--evict FOLDER] [--discard-stdout]\n"
          "              -- PROGRAM ARGUMENTS...\n"
          "       launch --idle\n"
          "       launch --agent\n",
          stderr);
    exit(EXIT_USAGE);
}

void die(const char *what, int error) {
    fprintf(stderr, "launch: %s: %s\n", what, strerror(error));
    exit(EXIT_BROKEN);
}

static long parse_number(const char *name, const char *text, long most) {
    char *end;
    errno = 0;
    long number = text ? strtol(text, &end, 10) : 0;
    if (!text || errno || *end || end == text || number < 1 || number > most) {
        fprintf(stderr, "launch: %s needs a number from 1 to %ld\n", name, most);
        usage();
    }
    return number;
}

static const char *require_text(const char *name, const char *text) {
    if (!text || !*text) {
        fprintf(stderr, "launch: %s needs a folder\n", name);
        usage();
    }
    return text;
}

static void require_last(const char *text) {
    if (!text || strcmp(text, "last") != 0) {
        fputs("launch: --cpu needs the word last\n", stderr);
        usage();
    }
}

struct options parse_options(char **argument) {
    struct options options = {.repeat = 1, .parallel = 1};
    for (; *argument && strcmp(*argument, "--") != 0; argument++) {
        if (strcmp(*argument, "--repeat") == 0)
            options.repeat = parse_number("--repeat", *++argument, MOST_IN_TURN);
        else if (strcmp(*argument, "--parallel") == 0)
            options.parallel = parse_number("--parallel", *++argument, MOST_AT_ONCE);
        else if (strcmp(*argument, "--evict") == 0)
            options.evicted = require_text("--evict", *++argument);
        else if (strcmp(*argument, "--cpu") == 0)
            require_last(*++argument), options.last_cpu = true;
        else if (strcmp(*argument, "--discard-stdout") == 0)
            options.discard_stdout = true;
        else if (strcmp(*argument, "--feed") == 0)
            options.feed = true;
        else
            usage();
    }
    if (!argument[0] || !argument[1])
        usage();
    options.program = argument + 1;
    return options;
}

void pin_to_last_cpu(void) {
    cpu_set_t set;
    int cpu = CPU_SETSIZE - 1;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        die("cannot read the CPUs that are allowed", errno);
    while (!CPU_ISSET(cpu, &set))
        cpu--;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("cannot pin to the last CPU", errno);
}

void add_process(struct batch *batch, const struct rusage *one, int status) {
    struct rusage *all = &batch->usage;
    timeradd(&all->ru_utime, &one->ru_utime, &all->ru_utime);
    timeradd(&all->ru_stime, &one->ru_stime, &all->ru_stime);
    all->ru_maxrss = one->ru_maxrss > all->ru_maxrss ? one->ru_maxrss : all->ru_maxrss;
    all->ru_nvcsw += one->ru_nvcsw;
    all->ru_nivcsw += one->ru_nivcsw;
    batch->status = batch->status ? batch->status : status;
}

int exit_code(int status) {
    return WIFSIGNALED(status) ? EXIT_SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
}

void print_cost(FILE *to, const struct batch *batch, const struct options *options) {
    const struct rusage *usage = &batch->usage;
    long long wall_ns = (batch->stop.tv_sec - batch->start.tv_sec) * 1000000000LL +
                        (batch->stop.tv_nsec - batch->start.tv_nsec);
    fprintf(to, "{\"interlock_process\": {\"wall_s\": %lld.%09lld, ", wall_ns / 1000000000, wall_ns % 1000000000);
    fprintf(to, "\"user_s\": %ld.%06ld, ", (long)usage->ru_utime.tv_sec, (long)usage->ru_utime.tv_usec);
    fprintf(to, "\"sys_s\": %ld.%06ld, ", (long)usage->ru_stime.tv_sec, (long)usage->ru_stime.tv_usec);
    fprintf(to, "\"max_rss_bytes\": %lld, ", usage->ru_maxrss * 1024LL); /* Linux counts it in KiB. */
    fprintf(to, "\"voluntary_switches\": %ld, ", usage->ru_nvcsw);
    fprintf(to, "\"involuntary_switches\": %ld, ", usage->ru_nivcsw);
    if (options->evicted)
        fprintf(to, "\"resident_share\": %.6f, ", (double)batch->residue.resident / batch->residue.pages);
    fprintf(to, "\"exit_code\": %d, ", exit_code(batch->status));
    fprintf(to, "\"signal\": %d}}\n", WIFSIGNALED(batch->status) ? WTERMSIG(batch->status) : 0);
}
