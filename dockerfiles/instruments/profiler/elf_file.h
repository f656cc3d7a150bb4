#ifndef ELF_FILE_H
#define ELF_FILE_H

#include "stacks.h"

#include <stdbool.h>
#include <stddef.h>

/* A function by where its code is in the file. */
struct function {
    __u32 start, end;
    char *name; /* NULL if the file does not say */
};

/* What an executable or a library says of its code; places are bytes from the file's beginning. */
struct elf_file {
    char path[256];
    __u64 inode;
    struct unwind_row *rows;
    size_t row_count;
    struct function *functions; /* named ones, and those that have unwinding rules alone */
    size_t function_count;
};

/* Reads a file as the cell sees it; false if it is none that can be read. */
bool read_elf_file(const char *root, const char *path, struct elf_file *file);

/* The function at a place, or NULL. */
const struct function *function_at(const struct elf_file *file, __u32 place);

#endif
