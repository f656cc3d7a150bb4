/* No privilege is needed and nobody else on the machine loses a page: a file's clean pages go by posix_fadvise unless
 * another process has them mapped, and mincore tells which are left. Names and inodes stay known to the kernel.
 */
#define _GNU_SOURCE
#include "evict.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { EXIT_NOT_EVICTED = 1, OPEN_FOLDERS = 32, PERCENT_ALLOWED = 1, PAGES_AT_ONCE = 1 << 16 };

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

static struct residue found;

static void cannot(const char *what, const char *why) {
    fprintf(stderr, "launch: cannot evict %s: %s\n", what, why);
    exit(EXIT_NOT_EVICTED);
}

static unsigned long long resident_pages(const char *path, int file, unsigned long long size) {
    static unsigned char states[PAGES_AT_ONCE];
    unsigned long long page = sysconf(_SC_PAGESIZE), most = page * PAGES_AT_ONCE, resident = 0;
    for (unsigned long long offset = 0; offset < size; offset += most) {
        size_t length = size - offset < most ? size - offset : most;
        void *memory = mmap(NULL, length, PROT_READ, MAP_SHARED, file, offset);
        if (memory == MAP_FAILED || mincore(memory, length, states) != 0)
            cannot(path, strerror(errno));
        for (size_t number = 0; number * page < length; number++)
            resident += states[number] & 1;
        munmap(memory, length);
    }
    return resident;
}

static void drop(int file) {
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)place;
    if (kind == FTW_DNR || kind == FTW_NS)
        cannot(path, "it cannot be read");
    if (kind != FTW_F || !S_ISREG(status->st_mode) || status->st_size == 0)
        return 0;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        cannot(path, strerror(errno));
    drop(file);
    unsigned long long resident = resident_pages(path, file, status->st_size);
    if (resident) {
        /* A page that was written and is not on the disk yet cannot go before it is. */
        sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
        drop(file);
        resident = resident_pages(path, file, status->st_size);
    }
    unsigned long long page = sysconf(_SC_PAGESIZE);
    found.pages += (status->st_size + page - 1) / page;
    found.resident += resident;
    close(file);
    return 0;
}

void drop_pages(const char *path) {
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return;
    drop(file);
    close(file);
}

struct residue evict(const char *folder) {
    struct statfs system;
    found = (struct residue){0};
    if (statfs(folder, &system) != 0)
        cannot(folder, strerror(errno));
    if (system.f_type == FUSE_SUPER_MAGIC)
        cannot(folder, "its file system is a program, and what that keeps in memory is out of sight");
    if (nftw(folder, visit, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT) != 0)
        cannot(folder, strerror(errno));
    if (found.pages == 0)
        cannot(folder, "there is no file in it");
    if (found.resident * 100 > found.pages * PERCENT_ALLOWED) {
        char why[80];
        snprintf(why, sizeof why, "%llu of its %llu pages stay in memory", found.resident, found.pages);
        cannot(folder, why);
    }
    return found;
}
