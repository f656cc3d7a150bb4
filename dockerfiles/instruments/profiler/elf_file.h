#ifndef ELF_FILE_H
#define ELF_FILE_H

#include "stacks.h"

#include <stdbool.h>
#include <stddef.h>

/* A function by where its code is in the file. */
struct function {
    __u32 start, end;
    char *name; /* NULL if nobody says; of a part or a copy that the compiler made with its mark behind a dot */
};

/* What an executable or a library says of its code; places are bytes from the file's beginning. */
struct elf_file {
    char path[256];
    __u64 inode;
    struct unwind_row *rows;
    size_t row_count;
    struct function *functions; /* named ones, and those that have unwinding rules alone */
    size_t function_count;
    bool has_symbols; /* names of functions that it does not export came from a file of its own */
};

/* Reads a file as the cell sees it; false if it is none that can be read. Its symbols are looked for by its build id in
 * this directory (.build-id/xx/yyyy.debug), unless that is NULL. */
bool read_elf_file(const char *root, const char *path, const char *symbols, struct elf_file *file);

/* The next function of this name after `previous`, which is NULL at first; NULL if there is none. Copies that the
 * compiler made have the name too; parts that are jumped to are none. */
const struct function *next_function(const struct elf_file *file, const char *name, const struct function *previous);

/* The function at a place, or NULL. */
const struct function *function_at(const struct elf_file *file, __u32 place);

#endif
