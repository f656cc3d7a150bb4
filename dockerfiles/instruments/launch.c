/* Starts a program again and again, alone or some at once, and says what each process (or batch of them) cost.
 *
 * It is static and small for two reasons: it has to run in every image, and Linux counts the peak memory of the
 * process that calls posix_spawn into the peak of the child.
 */
#define _GNU_SOURCE
#include "evict.h"
#include "profiler/counts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };
enum { MOST_IN_TURN = 1000000, MOST_AT_ONCE = 1024 };
enum { EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_NOT_STARTED = 127, EXIT_SIGNAL_BASE = 128 };

/* Another event at compile time, for tests on machines without hardware counters. */
#ifndef EVENT_TYPE
#define EVENT_TYPE PERF_TYPE_HARDWARE
#define EVENT PERF_COUNT_HW_INSTRUCTIONS
#endif

extern char **environ;

struct options {
    long repeat;
    long parallel;
    const char *evicted;
    bool last_cpu;
    bool discard_stdout;
    bool count_instructions;
    char **program;
};

/* One process, or all that were started at once: from the first one's start to the last one's end, their costs added
 * up, the peak of the largest, and how the first that failed ended. */
struct batch {
    struct timespec start;
    struct timespec stop;
    struct rusage usage;
    int status;
    unsigned long long instructions;
    struct residue residue;
};

static void usage(void) {
    fputs("usage: launch [--repeat N] [--parallel N] [--cpu last] [--evict FOLDER] [--discard-stdout]\n"
          "              [--count-instructions] -- PROGRAM ARGUMENTS...\n"
          "       launch --idle\n",
          stderr);
    exit(EXIT_USAGE);
}

static void die(const char *what, int error) {
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

static struct options parse(char **argument) {
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
        else if (strcmp(*argument, "--count-instructions") == 0)
            options.count_instructions = true;
        else
            usage();
    }
    if (!argument[0] || !argument[1])
        usage();
    options.program = argument + 1;
    return options;
}

/* PID 1 of a container: without a handler it would not even notice SIGTERM, and every orphan is its child. */
static int idle(void) {
    sigset_t ends;
    int received;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGCHLD, SIG_IGN);
    return sigwait(&ends, &received) == 0 ? EXIT_SUCCESS : EXIT_BROKEN;
}

/* Pins this process, because posix_spawn cannot pin the child, which inherits it; this one only waits meanwhile. */
static void pin_to_last_cpu(void) {
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

static void prepare_actions(posix_spawn_file_actions_t *actions, bool discard_stdout) {
    int error = posix_spawn_file_actions_init(actions);
    if (!error && discard_stdout)
        error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (error)
        die("cannot prepare the child's files", error);
}

/* A counter that children inherit. It counts this process too, some thousand instructions a start: switched on at the
 * child's exec it would miss whole children, because Linux may swap the counters of two processes that inherit alike. */
static int open_instructions(void) {
    struct perf_event_attr attributes = {
        .type = EVENT_TYPE,
        .size = sizeof attributes,
        .config = EVENT,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .inherit = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int counter = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (counter < 0)
        die("cannot count instructions", errno);
    return counter;
}

/* All that ended children have executed since the counter was opened. */
static unsigned long long read_counter(int counter) {
    struct {
        unsigned long long value, enabled, running;
    } counted;
    if (read(counter, &counted, sizeof counted) != sizeof counted)
        die("cannot read the counter", errno);
    /* Shared with others, it stood still in between. */
    if (counted.running < counted.enabled)
        die("cannot count instructions", EBUSY);
    return counted.value;
}

static void spawn(char **program, const posix_spawn_file_actions_t *actions) {
    pid_t pid;
    int error = posix_spawnp(&pid, program[0], actions, NULL, program, environ);
    if (!error)
        return;
    fprintf(stderr, "launch: cannot start %s: %s\n", program[0], strerror(error));
    while (wait(NULL) > 0)
        ;
    exit(EXIT_NOT_STARTED);
}

static void add(struct batch *batch, const struct rusage *one, int status) {
    struct rusage *all = &batch->usage;
    timeradd(&all->ru_utime, &one->ru_utime, &all->ru_utime);
    timeradd(&all->ru_stime, &one->ru_stime, &all->ru_stime);
    all->ru_maxrss = one->ru_maxrss > all->ru_maxrss ? one->ru_maxrss : all->ru_maxrss;
    all->ru_nvcsw += one->ru_nvcsw;
    all->ru_nivcsw += one->ru_nivcsw;
    batch->status = batch->status ? batch->status : status;
}

static struct batch run(const struct options *options, const posix_spawn_file_actions_t *actions) {
    struct batch batch = {0};
    if (options->evicted)
        batch.residue = evict(options->evicted);
    /* For a profiler: start-up begins at the program's exec, and what the launcher itself does is never counted. */
    close(PHASE_MARK | FROM_EXEC | STARTUP);
    clock_gettime(CLOCK_MONOTONIC, &batch.start);
    for (long number = 0; number < options->parallel; number++)
        spawn(options->program, actions);
    for (long number = 0; number < options->parallel; number++) {
        struct rusage usage;
        int status;
        if (wait4(-1, &status, 0, &usage) < 0)
            die("cannot wait for the child", errno);
        add(&batch, &usage, status);
    }
    clock_gettime(CLOCK_MONOTONIC, &batch.stop);
    close(PHASE_MARK | OUTSIDE);
    return batch;
}

/* As a shell says it, so that a killed process never looks like a success. */
static int exit_code(int status) {
    return WIFSIGNALED(status) ? EXIT_SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
}

static void print(const struct batch *batch, const struct options *options) {
    const struct rusage *usage = &batch->usage;
    long long wall_ns = (batch->stop.tv_sec - batch->start.tv_sec) * 1000000000LL +
                        (batch->stop.tv_nsec - batch->start.tv_nsec);
    printf("{\"interlock_process\": {\"wall_s\": %lld.%09lld, ", wall_ns / 1000000000, wall_ns % 1000000000);
    printf("\"user_s\": %ld.%06ld, ", (long)usage->ru_utime.tv_sec, (long)usage->ru_utime.tv_usec);
    printf("\"sys_s\": %ld.%06ld, ", (long)usage->ru_stime.tv_sec, (long)usage->ru_stime.tv_usec);
    printf("\"max_rss_bytes\": %lld, ", usage->ru_maxrss * 1024LL); /* Linux counts it in KiB. */
    printf("\"voluntary_switches\": %ld, ", usage->ru_nvcsw);
    printf("\"involuntary_switches\": %ld, ", usage->ru_nivcsw);
    if (options->count_instructions)
        printf("\"instructions\": %llu, ", batch->instructions);
    if (options->evicted)
        printf("\"resident_share\": %.6f, ", (double)batch->residue.resident / batch->residue.pages);
    printf("\"exit_code\": %d, ", exit_code(batch->status));
    printf("\"signal\": %d}}\n", WIFSIGNALED(batch->status) ? WTERMSIG(batch->status) : 0);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--idle") == 0)
        return idle();
    struct options options = parse(arguments + 1);
    posix_spawn_file_actions_t actions;
    /* Said at the end: whoever reads a line at once would run beside the next process. */
    setvbuf(stdout, NULL, _IOFBF, BUFFER_BYTES);
    prepare_actions(&actions, options.discard_stdout);
    if (options.last_cpu)
        pin_to_last_cpu();
    int counter = options.count_instructions ? open_instructions() : -1, code = EXIT_SUCCESS;
    unsigned long long before = 0;
    for (long number = 0; number < options.repeat && code == EXIT_SUCCESS; number++) {
        struct batch batch = run(&options, &actions);
        if (counter >= 0) {
            unsigned long long after = read_counter(counter);
            batch.instructions = after - before;
            before = after;
        }
        print(&batch, &options);
        code = exit_code(batch.status);
    }
    if (fflush(stdout) != 0)
        die("cannot write to stdout", errno);
    return code;
}
