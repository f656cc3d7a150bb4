/* The end of a profiler that cannot count. */
#include "profiler.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void give_up(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("profiler: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_CANNOT);
}
