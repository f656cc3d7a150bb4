#!/bin/sh
# Makes the files of the download workload, then serves them. The manifest appears last and at once: when it is there,
# the server answers and has everything that it lists.
set -eu
FILES=/srv/files
LISTENING=':1F90 [0-9A-F]*:0000 0A ' # port 8080, as /proc/net/tcp writes it

# PID 1 ignores SIGTERM without a trap; nginx has its own from the exec on.
trap 'exit 143' TERM INT

# A shell reacts to a signal only between two commands, unless it waits for one in the background.
promptly() {
    "$@" &
    wait $!
}

# random_file MIB PATH: random, so that nothing on the way can compress it.
random_file() {
    promptly dd if=/dev/urandom of="$FILES/$2" bs=1M count="$1" iflag=fullblock status=none
}

# Lines "sha1  size  path".
write_manifest() {
    for path in single.bin many/*; do
        sha1=$(sha1sum < "$path")
        echo "${sha1%% *}  $(stat -c %s "$path")  $path"
    done > .manifest
}

# Ends as nginx's child, because nginx takes over this process.
publish_when_nginx_listens() {
    until grep -q "$LISTENING" /proc/net/tcp; do
        sleep 0.01
    done
    mv .manifest manifest
}

cd "$FILES"
# A restarted container must not serve the old manifest while it makes new files.
rm -rf manifest single.bin many
mkdir many
random_file "$SINGLE_MIB" single.bin
number=0
while [ "$number" -lt "$MANY_FILES" ]; do
    random_file "$MANY_MIB" "many/$(printf %03d "$number").bin"
    number=$((number + 1))
done
promptly write_manifest
publish_when_nginx_listens &
exec nginx -g 'daemon off;'
