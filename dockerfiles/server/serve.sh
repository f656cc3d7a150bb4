#!/bin/sh
# Makes the files of the download workloads and a certificate, then serves them. The manifest appears last and at once:
# when it is there, the server answers and has everything that it lists.
set -eu
: "${FILES:=/srv/files}" "${CONFIGURATION:=/etc/nginx}" "${ADDRESS:=}" "${SERVER:=nginx}"
LISTENING=':1F90 [0-9A-F]*:0000 0A ' # port 8080, as /proc/net/tcp writes it after the address

# PID 1 ignores SIGTERM without a trap; nginx has its own from the exec on.
trap 'exit 143' TERM INT

# A shell reacts to a signal only between two commands, unless it waits for one in the background.
promptly() {
    "$@" &
    wait $!
}

# random MIB: random, so that nothing on the way can compress it.
random() {
    dd if=/dev/urandom bs=1M count="$1" iflag=fullblock status=none
}

# Few processes, whatever the number of files: on a busy machine each start counts.
make_files() {
    random "$SINGLE_MIB" > single.bin
    random "$((MANY_FILES * MANY_MIB))" \
        | split --bytes="${MANY_MIB}M" --numeric-suffixes --suffix-length=3 --additional-suffix=.bin - many/
}

# Lines "sha1  size  path".
write_manifest() {
    sha1sum single.bin many/* > .sums
    stat -c %s single.bin many/* | paste -d ' ' .sums - \
        | while read -r sha1 path size; do echo "$sha1  $size  $path"; done > .manifest
    rm .sums
}

# What nginx says of a file in headers of B2: its SHA-1 and its name, by the path.
write_b2_files() {
    echo 'map $uri $b2_sha1 {'
    while read -r sha1 size path; do echo "  /file/bucket/$path $sha1;"; done < .manifest
    echo '}'
    echo 'map $uri $b2_name {'
    while read -r sha1 size path; do echo "  /file/bucket/$path $path;"; done < .manifest
    echo '}'
}

# The answer to b2_list_file_versions, of which the client needs every key.
write_b2_listing() {
    separator=
    printf '{"files": ['
    grep '  many/' .manifest | while read -r sha1 size path; do
        printf '%s{"accountId": "account", "action": "upload", "bucketId": "b1", "contentLength": %s, "contentMd5": null,
            "contentSha1": "%s", "contentType": "application/octet-stream", "fileId": "id_%s", "fileInfo": {},
            "fileName": "%s", "uploadTimestamp": 1600000000000,
            "serverSideEncryption": {"mode": null, "algorithm": null},
            "fileRetention": {"isClientAuthorizedToRead": false, "value": null},
            "legalHold": {"isClientAuthorizedToRead": false, "value": null}}' \
            "$separator" "$size" "$sha1" "${path#many/}" "$path"
        separator=,
    done
    printf '], "nextFileName": null, "nextFileId": null}\n'
}

# Of this container's address alone, which is a DNS name as well: Python 2.7 compares no addresses.
make_certificate() {
    address=${ADDRESS:-$(hostname -i)}
    address=${address%% *}
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$address" \
        -addext "subjectAltName=IP:$address,DNS:$address" -addext keyUsage=critical,digitalSignature,keyCertSign \
        -keyout "$CONFIGURATION/tls.key" -out "$CONFIGURATION/tls.pem" 2> /dev/null
    cp "$CONFIGURATION/tls.pem" tls.pem
}

# 127.1.2.3 as /proc/net/tcp writes it: 0302017F, the last byte first on the machines that there are images for.
as_in_proc() {
    echo "$1" | {
        IFS=. read -r a b c d
        printf '%02X%02X%02X%02X' "$d" "$c" "$b" "$a"
    }
}

# Ends as the server's child, because the server takes over this process. The address is looked at as well: without containers,
# somebody else may listen on the same port of another one.
publish_when_it_listens() {
    own="$(as_in_proc "${ADDRESS:-0.0.0.0}")$LISTENING"
    until grep -q "$own" /proc/net/tcp; do
        kill -0 $$ 2> /dev/null || exit  # of a server that did not start
        sleep 0.01
    done
    mv .manifest manifest
}

cd "$FILES"
# A restarted container must not serve the old manifest while it makes new files.
rm -rf manifest single.bin many
mkdir many
promptly make_files
promptly write_manifest
write_b2_files > "$CONFIGURATION/b2-files.conf"
write_b2_listing > b2-listing.json
make_certificate
publish_when_it_listens &
[ "$SERVER" = nginx ] || exec caddy run --adapter caddyfile --config "$CONFIGURATION/Caddyfile"
exec nginx -c "$CONFIGURATION/nginx.conf" -g 'daemon off;'
