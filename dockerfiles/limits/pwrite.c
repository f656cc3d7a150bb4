/* pwrite WORKERS BLOCK-BYTES MIB FILE [fsync]: a new file of so many MiB in the place of an earlier one, in contiguous parts,
 * a thread each. What the storage and the kernel allow a program that does nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file;
static size_t block_bytes;
static char *block;

typedef struct {
    pthread_t thread;
    long long first, end;
} Part;

static void fail(const char *what) {
    fprintf(stderr, "pwrite: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *write_part(void *given) {
    const Part *part = given;
    for (long long number = part->first; number < part->end; number++)
        if (pwrite(file, block, block_bytes, number * (long long)block_bytes) != (ssize_t)block_bytes) fail("pwrite");
    return NULL;
}

int main(int count, char **words) {
    int workers = count > 4 ? atoi(words[1]) : 0;
    block_bytes = count > 4 ? strtoul(words[2], NULL, 10) : 0;
    if (workers < 1 || workers > 64 || !block_bytes) {
        fprintf(stderr, "usage: pwrite WORKERS BLOCK-BYTES MIB FILE [fsync]\n");
        return 2;
    }
    long long blocks = atoll(words[3]) * 1048576 / (long long)block_bytes;
    Part parts[64];
    block = malloc(block_bytes);
    if (!block) fail("malloc");
    memset(block, 'x', block_bytes);
    if (unlink(words[4]) && errno != ENOENT) fail(words[4]);
    file = open(words[4], O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) fail(words[4]);
    for (int number = 0; number < workers; number++) {
        parts[number].first = blocks * number / workers;
        parts[number].end = blocks * (number + 1) / workers;
        if (pthread_create(&parts[number].thread, NULL, write_part, &parts[number])) fail("pthread_create");
    }
    for (int number = 0; number < workers; number++) pthread_join(parts[number].thread, NULL);
    if (count > 5 && fsync(file)) fail("fsync");
    if (close(file)) fail(words[4]);
    return 0;
}
