#ifndef PROFILER_H
#define PROFILER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The cell that is watched. */
struct target {
    pid_t pid;          /* a process that sees its files: its first one, as the host numbers it, or this profiler */
    int cgroup;         /* its directory in the cgroup v2 hierarchy, or -1 */
    uint64_t device, inode; /* of its PID namespace, or 0 if it has none of its own */
    char *stacks;       /* the calls whose stacks are taken besides futex, or NULL for none */
    const char *frames; /* where the interpreter keeps its frames (stacks.h), or NULL */
    const char **files; /* ELF files that may be on a stack, as the cell sees them */
    unsigned file_count;
    const char *symbols; /* the directory with their symbols by build id, or NULL */
    bool acquires, gil; /* whether the functions that take locks and stop all threads are probed, and those of the GIL */
    bool attempts;      /* or the beginnings of those that take locks alone */
};

/* A way to count: start, and print after the end. Both end the program with a reason on stderr if they cannot. */
struct method {
    void (*start)(const struct target *target);
    void (*print)(void);
};

extern const struct method bpf_method, stacks_method;

/* Exit codes. */
enum { EXIT_CANNOT = 1, EXIT_USAGE = 2, EXIT_OTHER_TRACER = 3 };

_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fills *target; gives up if the process is not there or is in no container. */
void find_target(pid_t pid, const char *cgroups, struct target *target);

/* The same of a cgroup in the v2 hierarchy whose processes are this machine's own; gives up if it is none. */
void take_cgroup(const char *directory, struct target *target);

/* Writes "name (pid N), ..." of other programs that trace system calls, or the cell; an empty text if there are none. */
void find_tracers(const struct target *target, char *text, size_t size);

/* Names for output; what has none is written into the buffer as a number. */
const char *syscall_name(unsigned number, char buffer[16]);
const char *error_name(unsigned error, char buffer[16]);
const char *futex_operation_name(unsigned operation);

#endif
