# Optimises an interpreter by a profile and at link time; read by build.sh, the same for every variant.
# A profile is what a training has counted: a file beside each object (gcc), or one file for all (clang).

# What froze the library, and what it froze, is taken as it is. Words reach the makes that make starts.
frozen_already="FREEZE_MODULE_DEPS= FREEZE_MODULE_BOOTSTRAP_DEPS="

compiler_here() { echo "$("$1" --version | head -n 1), $(uname -m)"; }

# stored_profile COMPILER [TRAINED_WITH FILE]...: the file that was trained with this compiler on such a machine.
# Exit code 67 if there is none.
stored_profile() {
    here=$(compiler_here "$1")
    shift
    while [ $# -gt 0 ]; do
        if [ "$1" = "$here" ]; then echo "$HERE/$2" && return; fi
        shift 2
    done
    echo "interlock: no profile is stored for $here: with TRAIN=here this build trains one first, which takes minutes" >&2
    exit 67
}

# train COMPILER TARGETS WORD...: builds an interpreter that counts, runs the training and packs what was counted, with the
# name of the compiler, into $PROFILE too if that is given.
train() {
    trained_with=$(compiler_here "$1") targets=$2
    shift 2
    for target in $targets; do make -j "$JOBS" "$target" "$@"; done
    find . -name '*.gcda' -o -name '*.profclangd' | LC_ALL=C sort > "$BUILD_DIR/counted"
    tar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cJf "$BUILD_DIR/profile.tar.xz" \
        -T "$BUILD_DIR/counted"
    [ -n "$PROFILE" ] || return 0
    cp "$BUILD_DIR/profile.tar.xz" "$PROFILE"
    echo "$trained_with" > "$PROFILE/trained-with"
}

# without_lto VARIABLE: its value in the Makefile, without what optimises at link time.
without_lto() {
    sed -n "s/^$1=[[:space:]]*//p" Makefile | sed 's/-f\(lto[^ ]*\|use-linker-plugin\|no-fat-lto-objects\)//g'
}

# compile_by FILE TARGET: compiles by the profile in FILE; it is the version's own target that does.
compile_by() {
    # gcc then compiles each file once, when it links, and on all cores. Makefile is made of Makefile.pre, which may not
    # be newer than Setup.local: else the modules that are named there are built as shared ones.
    # configure sets -g beside -flto. No image has DWARF, nor its symbols: without it a build needs a fifth less CPU time.
    sed -i 's/-ffat-lto-objects/-fno-fat-lto-objects/g; s/ -flto-partition=none//g; s/-flto\([[:space:]]\|$\)/-flto=auto\1/g
        /-flto/s/ -g\([[:space:]]\|$\)/\1/' Makefile Makefile.pre
    touch Modules/Setup.local
    make Makefile
    # A shared module is nearly always one file, which has nothing to gain at its link (3.12 and later name them so).
    sed -i 's/\$(PY_STDMODULE_CFLAGS) \$(CCSHARED)/$(PY_STDMODULE_CFLAGS) -fno-lto $(CCSHARED)/' Makefile
    # What freezes the library is not installed, and its output depends on the source alone: it needs no optimisation.
    frozen=$(grep -oE 'Python/(frozen_modules|deepfreeze)/[A-Za-z0-9_.]+\.[ch]' Makefile | sort -u)
    if [ -n "$frozen" ]; then
        make -j "$JOBS" OPT="-DNDEBUG -fwrapv -O0" CONFIGURE_CFLAGS_NODIST="$(without_lto CONFIGURE_CFLAGS_NODIST)" \
            CONFIGURE_LDFLAGS_NODIST="$(without_lto CONFIGURE_LDFLAGS_NODIST)" $frozen
        find . -name '*.o' -exec rm -f {} +
        touch $frozen
    fi
    tar -xf "$1"
    touch profile-run-stamp
    make -j "$JOBS" "$2" $frozen_already
}
