/* Counts the system calls of a cell: starts when it says "ready", ends at SIGTERM, prints one JSON object. */
#define _GNU_SOURCE
#include "profiler.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void usage(void) {
    fputs("usage: profiler --pid PID [--cgroups DIRECTORY] | --cgroup DIRECTORY"
          " [--stacks CALL,... [--frames OFFSET,...] [--file ELF]... [--symbols DIRECTORY] [--probe locks|locks,gil|attempts]]\n", stderr);
    exit(EXIT_USAGE);
}

static void parse_probe(const char *value, struct target *wanted) {
    wanted->gil = strcmp(value, "locks,gil") == 0;
    wanted->acquires = wanted->gil || strcmp(value, "locks") == 0;
    wanted->attempts = strcmp(value, "attempts") == 0;
    if (!wanted->acquires && !wanted->attempts)
        usage();
}

static void refuse_beside_others(const struct target *target) {
    char tracers[1024];
    find_tracers(target, tracers, sizeof tracers);
    if (!*tracers)
        return;
    fprintf(stderr, "profiler: %s is tracing on this machine: two tracers spoil each other's counts\n", tracers);
    exit(EXIT_OTHER_TRACER);
}

int main(int count, char **arguments) {
    const char *cgroups = "/host/cgroup", *cgroup = NULL;
    pid_t pid = 0;
    struct target wanted = {.files = calloc(count, sizeof *wanted.files)}, target;
    if (!wanted.files)
        give_up("out of memory");
    for (int index = 1; index < count; index += 2) {
        const char *value = arguments[index + 1];
        if (strcmp(arguments[index], "--pid") == 0 && value)
            pid = atoi(value);
        else if (strcmp(arguments[index], "--cgroups") == 0 && value)
            cgroups = value;
        else if (strcmp(arguments[index], "--cgroup") == 0 && value)
            cgroup = value;
        else if (strcmp(arguments[index], "--stacks") == 0 && value)
            wanted.stacks = arguments[index + 1];
        else if (strcmp(arguments[index], "--frames") == 0 && value)
            wanted.frames = value;
        else if (strcmp(arguments[index], "--probe") == 0 && value)
            parse_probe(value, &wanted);
        else if (strcmp(arguments[index], "--symbols") == 0 && value)
            wanted.symbols = value;
        else if (strcmp(arguments[index], "--file") == 0 && value)
            wanted.files[wanted.file_count++] = value;
        else
            usage();
    }
    if ((pid > 0) == (cgroup != NULL))
        usage();
    const struct method *method = wanted.stacks ? &stacks_method : &bpf_method;
    /* Blocked before anything is started, so that an early SIGTERM is not lost. */
    sigset_t ends;
    int received;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (cgroup)
        take_cgroup(cgroup, &target);
    else
        find_target(pid, cgroups, &target);
    target.stacks = wanted.stacks;
    target.frames = wanted.frames;
    target.files = wanted.files;
    target.file_count = wanted.file_count;
    target.symbols = wanted.symbols;
    target.acquires = wanted.acquires;
    target.gil = wanted.gil;
    target.attempts = wanted.attempts;
    refuse_beside_others(&target);
    method->start(&target);
    puts("ready");
    fflush(stdout);
    sigwait(&ends, &received);
    method->print();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_CANNOT;
}
