#!/bin/sh
# Makes $PREFIX/libpthread-pth.so: GNU pth under the names of POSIX threads, for modes that preload it. Where no place has
# the source there is no such library, and a cell in that mode says so; nothing else needs it.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
: "${PREFIX:=/interlock}" "${BUILD_DIR:=/build}" "${INTERLOCK_SOURCE_MIRROR:=}"
. "$HERE/fetch.sh"
cd "$BUILD_DIR"
fetch pth-2.0.7.tar.gz 72353660c5a2caafd601b20e12e75d865fd88f6cf1a088b306a3963f0bc77232 \
    "https://ftp.gnu.org/gnu/pth/pth-2.0.7.tar.gz" \
    "pool/main/p/pth/pth_2.0.7.orig.tar.gz"
tar --no-same-owner -xf pth-2.0.7.tar.gz
cd pth-2.0.7
# The archive is of 2006 and does not know the machines that came after it.
cp /usr/share/misc/config.guess /usr/share/misc/config.sub .
# With the hard mapping a blocking call lets other threads run, as threads are expected to.
CFLAGS="-std=gnu89 -O2" ./configure --prefix="$BUILD_DIR/pth" --enable-optimize --enable-pthread --enable-syscall-hard
make
make install
cp -L "$BUILD_DIR/pth/lib/libpthread.so" "$PREFIX/libpthread-pth.so"
