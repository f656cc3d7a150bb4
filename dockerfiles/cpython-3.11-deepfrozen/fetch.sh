# Fetches and checks what a build needs; read by build.sh and finish.sh, the same for every variant.
# Exit codes: 69: no place has the source; 65: what came has another SHA-256; 66: the signature is not by its key.

step() { echo "interlock: step $*"; }

# The mirrors that this system's apt is configured with, each on a line, without a slash at the end; their lists need
# not be here.
debian_mirrors() {
    apt-get indextargets --format '$(REPO_URI)' --no-release-info 'Created-By: Packages' 2>/dev/null | sed 's:/*$::' | sort -u
}

# A place is an https URL, a path below pool/ of whatever mirror apt uses, or a release that pip's index has.
urls_of() {
    case $1 in
        pool/*) debian_mirrors | sed "s|\$|/$1|" ;;
        *) echo "$1" ;;
    esac
}

# Debian's usual installation has no curl; without containers the Python that runs Interlock is there.
FETCH='
import http.client, shutil, sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=30) as came, open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(came, file)
except (OSError, ValueError, http.client.HTTPException) as error:
    sys.exit(str(error))
'

# A place that answers without end would fill the disk; the largest source has a tenth of this. In blocks of 512 bytes.
: "${MOST_BLOCKS:=2000000}"

# download URL FILE: what went wrong goes to standard output. In a subshell, as the limit is of the download alone.
download() (
    ulimit -f "$MOST_BLOCKS"
    case $1 in
        pip/*)
            "$PREFIX/bin/python" -m pip download -q --no-deps --only-binary :all: "${1#pip/}" 2>&1 || return 1
            [ -f "$2" ] || { echo "pip's index has another file for this interpreter" && return 1; } ;;
        *)
            if command -v curl > /dev/null; then
                curl -fsSL --connect-timeout 15 --speed-time 30 --speed-limit 1000 -o "$2" "$1" 2>&1
            else
                python3 -c "$FETCH" "$1" "$2" 2>&1
            fi ;;
    esac
)

# fetch FILE SHA256 PLACE...: FILE from the first place whose bytes have that sum. What lies beside the scripts comes
# first, then the user's mirror.
fetch() {
    file=$1 sha256=$2 answered=
    shift 2
    step "fetching $file"
    set -- ${INTERLOCK_SOURCE_MIRROR:+"${INTERLOCK_SOURCE_MIRROR%/}/$file"} "$@"
    if [ -f "$HERE/$file" ]; then set -- "file://$HERE/$file" "$@"; fi
    for place in "$@"; do
        urls=$(urls_of "$place")
        [ -n "$urls" ] || echo "interlock: tried $place: apt is configured with no mirror"
        for url in $urls; do
            if said=$(download "$url" "$file"); then
                answered=yes
                found=$(sha256sum "$file" | cut -d ' ' -f 1)
                if [ "$found" = "$sha256" ]; then
                    echo "interlock: source $file from $url"
                    return 0
                fi
                said="sha256 is $found ($(wc -c < "$file") bytes), wanted $sha256"
            fi
            if [ -f "$file" ] && [ "$(wc -c < "$file")" -ge $((MOST_BLOCKS * 512)) ]; then
                said="more than $((MOST_BLOCKS * 512)) bytes came, which no source has"
            fi
            rm -f "$file"
            echo "interlock: tried $url: $said"
        done
    done
    [ -z "$answered" ] || exit 65
    exit 69
}

# check_signature FILE KEY PLACE...: FILE was signed by KEY. Its sum is pinned, so a signature that nobody has is only
# said; one that is wrong ends the build.
check_signature() {
    file=$1 key=$2
    shift 2
    set -- ${INTERLOCK_SOURCE_MIRROR:+"${INTERLOCK_SOURCE_MIRROR%/}/$file.asc"} "$@"
    if [ -f "$HERE/$file.asc" ]; then set -- "file://$HERE/$file.asc" "$@"; fi
    for place in "$@"; do
        for url in $(urls_of "$place"); do
            download "$url" "$file.asc" > /dev/null || continue
            if said=$(sqv --keyring "$HERE/$key" "$file.asc" "$file" 2>&1); then
                echo "interlock: signature of $file by $(echo "$said" | tail -n 1) from $url"
                return 0
            fi
            echo "interlock: tried $url: the signature is not by $key: $(echo "$said" | tail -n 1)"
            exit 66
        done
    done
    echo "interlock: signature of $file not checked: no place has it"
}
