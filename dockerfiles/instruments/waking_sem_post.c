/* A sem_post that asks the kernel to wake a thread every time, whether or not one waits; to be preloaded.
 *
 * Until glibc 2.6, nptl/sysdeps/unix/sysv/linux/sem_post.c was an increment and a FUTEX_WAKE without a condition.
 * Since 2.7 a semaphore counts its waiters, and without one sem_post stays in user space. CPython's lock is a
 * semaphore, so figures that were taken on the older glibc have a system call in every release of a lock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int (*real_sem_post)(sem_t *);

/* Before main and thus before there are threads: sem_post itself only reads the pointer. */
__attribute__((constructor)) static void find_real_sem_post(void) {
    real_sem_post = (int (*)(sem_t *))dlsym(RTLD_NEXT, "sem_post");
    if (!real_sem_post) {
        fputs("waking_sem_post: there is no sem_post behind this one\n", stderr);
        abort();
    }
}

int sem_post(sem_t *semaphore) {
    int result = real_sem_post(semaphore);
    int error = errno;
    /* Not FUTEX_PRIVATE_FLAG, which came with Linux 2.6.22 and glibc 2.7. Whoever waits has been woken by the real
     * sem_post; and if the semaphore is gone by now, the kernel answers EFAULT or wakes a thread that checks again. */
    syscall(SYS_futex, semaphore, FUTEX_WAKE, 1, NULL, NULL, 0);
    errno = error;
    return result;
}
