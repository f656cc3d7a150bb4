#!/bin/sh
# Makes the instruments in /interlock from what lies beside this script.
set -eu
mkdir -p /interlock
cd /interlock

gcc -O2 -Wall -Wextra -Werror -static -s -o launch \
    /build/launch.c /build/agent.c /build/batch.c /build/evict.c
# What a mode preloads: it needs the C library of the image under test.
gcc -O2 -Wall -Wextra -Werror -shared -fPIC -o waking_sem_post.so /build/waking_sem_post.c

# For modes that preload GNU pth. Exit code 69: no place has its source; then there is no such library.
sh /build/pth.sh || [ $? = 69 ]

make -C /build/profiler
mkdir profiler
cp /build/profiler/profiler profiler/
ldd profiler/profiler | awk '$2 == "=>" && $1 !~ /^libc\./ { print $3 }' | xargs cp -L -t profiler

# The image under test may have another C library or none: strace starts through the loader it was linked for,
#   /interlock/strace/ld.so --library-path /interlock/strace /interlock/strace/strace ...
# whose name is made the same on every architecture. The last lines prove that it starts, and that it takes no library from
# elsewhere.
mkdir strace
cp /usr/bin/strace strace/
ldd /usr/bin/strace | awk '$2 == "=>" { print $3 }' | xargs cp -L -t strace
cp -L "$(ldd /usr/bin/strace | awk '$1 ~ /^\// { print $1 }')" strace/ld.so
strace/ld.so --library-path /interlock/strace strace/strace --version
if strace/ld.so --library-path /interlock/strace --list strace/strace | grep -v -e /interlock/strace/ -e vdso -e ld.so; then
    exit 1
fi
