/* Starts a program again and again, alone or some at once, and says what each process (or batch of them) cost.
 *
 * It is static and small for two reasons: it has to run in every image, and Linux counts the peak memory of the
 * process that calls posix_spawn into the peak of the child.
 */
#define _GNU_SOURCE
#include "agent.h"
#include "batch.h"
#include "profiler/counts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

extern char **environ;

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

static void prepare_actions(posix_spawn_file_actions_t *actions, bool discard_stdout) {
    int error = posix_spawn_file_actions_init(actions);
    if (!error && discard_stdout)
        error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (error)
        die("cannot prepare the child's files", error);
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
        add_process(&batch, &usage, status);
    }
    clock_gettime(CLOCK_MONOTONIC, &batch.stop);
    close(PHASE_MARK | OUTSIDE);
    return batch;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--idle") == 0)
        return idle();
    if (count == 2 && strcmp(arguments[1], "--agent") == 0)
        return agent();
    struct options options = parse_options(arguments + 1);
    posix_spawn_file_actions_t actions;
    /* Said at the end: whoever reads a line at once would run beside the next process. */
    setvbuf(stdout, NULL, _IOFBF, BUFFER_BYTES);
    prepare_actions(&actions, options.discard_stdout);
    if (options.last_cpu)
        pin_to_last_cpu(); /* This process only waits meanwhile. */
    int code = EXIT_SUCCESS;
    for (long number = 0; number < options.repeat && code == EXIT_SUCCESS; number++) {
        struct batch batch = run(&options, &actions);
        print_cost(stdout, &batch, &options);
        code = exit_code(batch.status);
    }
    if (fflush(stdout) != 0)
        die("cannot write to stdout", errno);
    return code;
}
