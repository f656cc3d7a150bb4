/* Makes a known number of system calls: what a profiler reports of it must be these numbers and no others.
 *
 * Threads are raw clones: those of a C library would add futex calls of their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MARK = 0x7fff0000, WORK = 3, END = 4 };
enum { STACK_BYTES = 64 * 1024, WORKERS = 4, SHORT_THREADS = 500, FORKS = 200, EXECS = 100 };
enum { WAKES = 50000, FAILED_WAITS = 10000, TIMED_OUT_WAITS = 5, GETPIDS = 56250, READS = 50000, BAD_READS = 10000 };

struct worker {
    int alive; /* cleared by the kernel when the thread has ended */
    int word;
    char *stack;
};

static int zero;

static void check(bool good) {
    if (!good)
        _exit(1);
}

static int work(void *argument) {
    struct worker *worker = argument;
    struct timespec two_ms = {.tv_nsec = 2000000};
    char byte;
    for (int count = 0; count < WAKES; count++)
        syscall(SYS_futex, &worker->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
    for (int count = 0; count < FAILED_WAITS; count++)
        syscall(SYS_futex, &worker->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
    for (int count = 0; count < TIMED_OUT_WAITS; count++)
        syscall(SYS_futex, &worker->word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 0, &(struct timespec){0}, NULL, FUTEX_BITSET_MATCH_ANY);
    for (int count = 0; count < TIMED_OUT_WAITS; count++)
        syscall(SYS_futex, &worker->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &two_ms, NULL, 0);
    for (int count = 0; count < GETPIDS; count++)
        syscall(SYS_getpid);
    for (int count = 0; count < READS; count++)
        syscall(SYS_read, zero, &byte, 1);
    for (int count = 0; count < BAD_READS; count++)
        syscall(SYS_read, -1, &byte, 1);
    return 0;
}

static int die_early(void *argument) {
    (void)argument;
    syscall(SYS_getppid);
    return 0;
}

static void start(struct worker *worker, int (*function)(void *)) {
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_CHILD_CLEARTID;
    worker->alive = 1;
    worker->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    check(worker->stack != MAP_FAILED);
    check(clone(function, worker->stack + STACK_BYTES, flags, worker, NULL, NULL, &worker->alive) > 0);
}

static void end(struct worker *worker) {
    while (__atomic_load_n(&worker->alive, __ATOMIC_ACQUIRE))
        sched_yield();
    munmap(worker->stack, STACK_BYTES);
}

static void start_short_children(char *self) {
    int status;
    for (int count = 0; count < FORKS; count++) {
        pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            syscall(SYS_getuid);
            syscall(SYS_exit_group, 0);
        }
        check(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    for (int count = 0; count < EXECS; count++) {
        char *arguments[] = {self, "child", NULL};
        pid_t child = vfork();
        if (child == 0) {
            execv(self, arguments);
            _exit(1);
        }
        check(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
}

int main(int count, char **arguments) {
    static struct worker workers[WORKERS], short_lived;
    if (count > 1) {
        syscall(SYS_getegid);
        _exit(0);
    }
    zero = open("/dev/zero", O_RDONLY);
    check(zero >= 0);
    close(MARK | WORK);
    for (int number = 0; number < WORKERS; number++)
        start(&workers[number], work);
    for (int number = 0; number < WORKERS; number++)
        end(&workers[number]);
    for (int number = 0; number < SHORT_THREADS; number++) {
        start(&short_lived, die_early);
        end(&short_lived);
    }
    start_short_children(arguments[0]);
    close(MARK | END);
    return 0;
}
