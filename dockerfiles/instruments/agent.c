#define _GNU_SOURCE
#include "agent.h"
#include "batch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 256, WORDS = 4096, LINE_BYTES = 64, CHUNK_BYTES = 1 << 16, MOST_BYTES = 1 << 24, MOST_PROCESSES = 1024 };
enum { ASKED = 0, ENDED = 1, FIRST_JOB = 2 };

extern char **environ;

struct job {
    struct options options;
    struct batch batch;
    pid_t processes[MOST_PROCESSES];
    long running;
    int input, output, errors; /* our ends; -1 once closed */
};

static struct job *jobs[JOBS];

static void answer(const char *what, int id, const void *bytes, size_t count) {
    /* One write each, where there is room: an answer is read as one. */
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "%s %d %zu\n", what, id, count);
    if (fwrite(line, 1, (size_t)length, stdout) != (size_t)length || fwrite(bytes, 1, count, stdout) != count ||
        fflush(stdout) != 0)
        exit(EXIT_BROKEN); /* whoever asked is gone */
}

static void close_end(int *end) {
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static void make_pipe(int ends[2]) {
    /* No other process may hold an end: a closed input would not be seen. */
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("cannot make a pipe", errno);
}

/* The environment of this process with these settings, until it is freed. */
static char **environment_with(char **settings, size_t count) {
    size_t inherited = 0, filled = 0;
    while (environ[inherited])
        inherited++;
    char **all = calloc(inherited + count + 1, sizeof *all);
    if (!all)
        die("no memory", errno);
    for (size_t place = 0; place < inherited; place++) {
        bool overridden = false;
        for (size_t own = 0; own < count; own++) {
            size_t name = (size_t)(strchr(settings[own], '=') - settings[own]) + 1;
            overridden |= strncmp(environ[place], settings[own], name) == 0;
        }
        if (!overridden)
            all[filled++] = environ[place];
    }
    memcpy(all + filled, settings, count * sizeof *all);
    return all;
}

static void check(int error) {
    if (error)
        die("cannot prepare a process", error);
}

/* In the process: stdin, stdout and stderr, and signals as if nobody had blocked any. */
static void prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, const int ends[3]) {
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    check(posix_spawnattr_init(attributes));
    check(posix_spawnattr_setsigmask(attributes, &none));
    check(posix_spawnattr_setsigdefault(attributes, &defaults));
    check(posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    check(posix_spawn_file_actions_init(actions));
    for (int number = 0; number < 3; number++)
        check(ends[number] < 0 ? posix_spawn_file_actions_addopen(actions, number, "/dev/null", O_RDWR, 0)
                               : posix_spawn_file_actions_adddup2(actions, ends[number], number));
}

static int spawn_all(struct job *job, char **environment, const int ends[3]) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    cpu_set_t before;
    int error = 0;
    prepare(&actions, &attributes, ends);
    if (sched_getaffinity(0, sizeof before, &before) != 0)
        die("cannot read the CPUs that are allowed", errno);
    if (job->options.last_cpu)
        pin_to_last_cpu();
    clock_gettime(CLOCK_MONOTONIC, &job->batch.start);
    for (; !error && job->running < job->options.parallel; job->running += !error)
        error = posix_spawnp(&job->processes[job->running], job->options.program[0], &actions, &attributes,
                             job->options.program, environment);
    sched_setaffinity(0, sizeof before, &before);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static void start(int id, char *bytes, size_t count) {
    char *words[WORDS + 1] = {0}, reason[512];
    size_t number = 0, settings = 0;
    for (char *word = bytes; word < bytes + count && number < WORDS; word += strlen(word) + 1)
        words[number++] = word;
    while (words[settings] && words[settings][0] != '-' && strchr(words[settings], '='))
        settings++;
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        die("no memory", errno);
    jobs[id] = job;
    job->options = parse_options(words + settings);
    if (job->options.evicted)
        job->batch.residue = evict(job->options.evicted);
    int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2];
    if (job->options.feed)
        make_pipe(input);
    if (!job->options.discard_stdout)
        make_pipe(output);
    make_pipe(errors);
    char **environment = environment_with(words, settings);
    const char *program = job->options.program[0];
    int ends[3] = {input[0], output[1], errors[1]}, error = spawn_all(job, environment, ends);
    free(environment);
    for (int end = 0; end < 3; end++)
        close_end(&ends[end]);
    job->input = input[1], job->output = output[0], job->errors = errors[0];
    job->options.program = NULL; /* it goes with the request */
    if (!error)
        return;
    int length = snprintf(reason, sizeof reason, "launch: cannot start %s: %s\n", program, strerror(error));
    answer("err", id, reason, (size_t)length < sizeof reason ? (size_t)length : sizeof reason - 1);
    job->batch.status = EXIT_NOT_STARTED << 8;
    job->batch.stop = job->batch.start;
}

static void pass_on(int id, const char *what, int *end) {
    static char chunk[CHUNK_BYTES];
    ssize_t count = read(*end, chunk, sizeof chunk);
    if (count > 0)
        answer(what, id, chunk, (size_t)count);
    else
        close_end(end);
}

/* What is there: a descendant that lives on may print more, and nobody waits for it. */
static void drain(int id, const char *what, int *end) {
    struct pollfd ready = {.events = POLLIN};
    while (*end >= 0 && (ready.fd = *end, poll(&ready, 1, 0) > 0))
        pass_on(id, what, end);
    close_end(end);
}

static void end_job(int id) {
    struct job *job = jobs[id];
    char *text;
    size_t length;
    drain(id, "out", &job->output);
    drain(id, "err", &job->errors);
    close_end(&job->input);
    FILE *line = open_memstream(&text, &length);
    if (!line)
        die("no memory", errno);
    print_cost(line, &job->batch, &job->options);
    fclose(line);
    answer("end", id, text, length);
    free(text);
    free(job);
    jobs[id] = NULL;
}

/* Whether it is one of the job's, which has one less then: its number may become another's. */
static bool took(struct job *job, pid_t pid) {
    for (long number = 0; number < job->options.parallel; number++)
        if (job->processes[number] == pid) {
            job->processes[number] = 0;
            return true;
        }
    return false;
}

static void reap(void) {
    struct rusage usage;
    int status;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
        for (int id = 0; id < JOBS; id++)
            if (jobs[id] && took(jobs[id], pid)) {
                clock_gettime(CLOCK_MONOTONIC, &jobs[id]->batch.stop);
                add_process(&jobs[id]->batch, &usage, status);
                jobs[id]->running--;
                break;
            }
}

static void end_those_that_ended(void) {
    for (int id = 0; id < JOBS; id++)
        if (jobs[id] && jobs[id]->running == 0)
            end_job(id);
}

static void tell(struct job *job, const char *bytes, size_t count) {
    for (size_t done = 0; job && job->input >= 0 && done < count;) {
        ssize_t written = write(job->input, bytes + done, count - done);
        if (written < 0 && errno != EINTR)
            close_end(&job->input); /* it has ended, which is told by itself */
        done += written > 0 ? (size_t)written : 0;
    }
}

/* One request, whole; false once whoever asks has gone. */
static bool serve(void) {
    char line[LINE_BYTES], what[8];
    size_t count;
    int id;
    if (!fgets(line, sizeof line, stdin))
        return false;
    if (sscanf(line, "%7s %d %zu", what, &id, &count) != 3 || id < 0 || id >= JOBS || count > MOST_BYTES ||
        (strcmp(what, "start") == 0 && jobs[id])) {
        fprintf(stderr, "launch: not a request: %s", line);
        exit(EXIT_USAGE);
    }
    char *bytes = calloc(count + 1, 1);
    if (!bytes)
        die("no memory", errno);
    if (fread(bytes, 1, count, stdin) != count)
        return false;
    if (strcmp(what, "start") == 0)
        start(id, bytes, count);
    else if (strcmp(what, "tell") == 0)
        tell(jobs[id], bytes, count);
    else if (strcmp(what, "drop") == 0)
        for (char *file = bytes; file < bytes + count; file += strlen(file) + 1)
            drop_pages(file);
    else if (jobs[id])
        close_end(&jobs[id]->input);
    free(bytes);
    return true;
}

static void pass_on_all(const struct pollfd *ready, const int *owners, nfds_t count) {
    for (nfds_t place = FIRST_JOB; place < count; place++) {
        struct job *job = jobs[owners[place]];
        if (ready[place].revents && ready[place].fd == job->output)
            pass_on(owners[place], "out", &job->output);
        else if (ready[place].revents && ready[place].fd == job->errors)
            pass_on(owners[place], "err", &job->errors);
    }
}

static nfds_t watched(struct pollfd *ready, int *owners) {
    nfds_t count = FIRST_JOB;
    for (int id = 0; id < JOBS; id++)
        for (int end = 0; jobs[id] && end < 2; end++) {
            ready[count] = (struct pollfd){.fd = end ? jobs[id]->errors : jobs[id]->output, .events = POLLIN};
            owners[count++] = id;
        }
    return count;
}

int agent(void) {
    struct pollfd ready[FIRST_JOB + 2 * JOBS];
    int owners[FIRST_JOB + 2 * JOBS];
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdin, NULL, _IONBF, 0); /* nothing may wait in a buffer that poll does not see */
    ready[ASKED] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    ready[ENDED] = (struct pollfd){.fd = signalfd(-1, &ends, SFD_CLOEXEC), .events = POLLIN};
    for (;;) {
        nfds_t count = watched(ready, owners);
        if (poll(ready, count, -1) < 0 && errno != EINTR)
            die("cannot wait", errno);
        if (ready[ENDED].revents) {
            struct signalfd_siginfo told;
            if (read(ready[ENDED].fd, &told, sizeof told) != sizeof told)
                die("cannot read a signal", errno);
            reap();
        }
        pass_on_all(ready, owners, count);
        if (ready[ASKED].revents && !serve())
            return EXIT_SUCCESS;
        end_those_that_ended();
    }
}
