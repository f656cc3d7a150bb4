#!/bin/sh
# Brings nox, and runs it with the arguments given. It needs Python 3.11 or newer, and works with or without root's rights:
#   sh bootstrap.sh -s matrix -- --quick --yes
#   sh bootstrap.sh -s tests
# What measuring needs besides is brought by playbooks/host.yml, if --yes allows it.
set -eu
cd "$(dirname "$0")"

say() { echo "bootstrap: $*" >&2; }
here() { dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q 'ok installed'; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
# At a terminal sudo may ask for a password.
may_install() { [ "$(id -u)" = 0 ] || { command -v sudo && { sudo -n true || [ -t 0 ]; }; } > /dev/null 2>&1; }

# Links of what starts with the machine, or when somebody logs in.
starts() { find /etc/systemd /etc/rc[0-9S].d -type l 2> /dev/null; }

# Installs what is missing of these packages, or says what would: who may not install goes on without.
install_debian_packages() {
    missing=
    for package in "$@"; do here "$package" || missing="$missing $package"; done
    [ -n "$missing" ] || return 0
    if ! may_install; then
        say "missing, and this user may not install packages. As root: apt-get install$missing"
        return 0
    fi
    as_root apt-get update -q || say "apt-get update failed: the packages that it knew before are taken"
    # shellcheck disable=SC2086  # one word per package
    size=$(apt-get install --print-uris -qq --no-install-recommends $missing 2> /dev/null \
        | awk '{ bytes += $3 } END { printf "%d packages, %d MB to download", NR, bytes / 1e6 }')
    say "installs$missing (with what they need $size)"
    before=$(starts)
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing \
        || say "these could not be installed; what needs them is left out"
    # Agents of gpg and ssh start when somebody needs them: nothing is enabled that was not.
    enabled=$(starts | grep -vxF "$before") || return 0
    # shellcheck disable=SC2086
    as_root rm -f $enabled
}

# Brings the files of a package into this clone, which needs no rights.
unpack_debian_package() {
    mkdir -p .nox/programs/fetched
    (cd .nox/programs/fetched && apt-get download -q "$1" && dpkg-deb -x "$1"_*.deb ..) && unpacked=0 || unpacked=1
    rm -r .nox/programs/fetched
    return $unpacked
}

# Installed, a service starts whenever the machine does: of its package the program alone is brought.
bring_programs() {
    for package in "$@"; do
        ls .nox/programs/usr/*bin/"$package" > /dev/null 2>&1 || unpack_debian_package "$package" \
            || say "$package could not be fetched; what needs it is left out"
    done
}

# Where Python's own way is missing, as in Debian without python3-venv, pip or uv makes an environment, or the pip of
# Debian's archive, which anybody may fetch.
make_environment() {
    asked="--require-hashes --only-binary :all: -r requirements/nox.txt"
    rm -rf .venv
    # shellcheck disable=SC2086
    if python3 -c 'import ensurepip' 2> /dev/null; then
        python3 -m venv .venv && .venv/bin/python -m pip install -q $asked
    elif python3 -m pip --version > /dev/null 2>&1; then
        python3 -m venv --without-pip .venv && python3 -m pip --python .venv/bin/python install -q $asked
    elif command -v uv > /dev/null; then
        uv venv -q .venv && uv pip install -q --python .venv/bin/python $asked
    elif unpack_debian_package python3-pip-whl > /dev/null 2>&1; then
        pip=$(echo .nox/programs/usr/share/python-wheels/pip-*.whl)
        python3 -m venv --without-pip .venv && .venv/bin/python "$pip/pip" install -q $asked
    else
        say "no way to make a Python environment: as root, apt-get install python3-venv (or install pip or uv)"
        return 1
    fi
}

if command -v dpkg-query > /dev/null; then
    # Python's own way to make an environment is a package of its own here; who may not install it has pip or uv.
    if python3 -c 'import ensurepip' 2> /dev/null; then venv=; else venv=python3-venv; fi
    # shellcheck disable=SC2086
    ! may_install || install_debian_packages python3 $venv
    # The tests make bases with mmdebstrap, compile, ask registries and fleets of their own, and look at the report with
    # Chromium: the headless shell takes a third less time. Ubuntu has no package: there nox has playwright bring one.
    case " $* " in *" tests "* | *" unit "* | *" proofs "* | *" torture "*)
        # Without its lists apt does not know which of its mirrors is Debian's, which mmdebstrap needs.
        ls /var/lib/apt/lists/*_Packages* > /dev/null 2>&1 || ! may_install || as_root apt-get update -q
        install_debian_packages binutils ca-certificates curl debian-archive-keyring gcc gpg gpg-agent gpgv libc6-dev make \
            mmdebstrap openssh-client openssl patch perl pkg-config uidmap util-linux xz-utils
        bring_programs docker-registry nginx
        for browser in chromium-headless-shell chromium; do
            apt-cache show "$browser" > /dev/null 2>&1 || continue
            install_debian_packages "$browser" fonts-dejavu-core
            break
        done ;;
    esac
    # One proof is that Podman does what Docker does.
    case " $* " in
    *" proofs "*) install_debian_packages catatonit podman ;;
    *" torture "*) install_debian_packages libfaketime ;; # a clock that jumps
    esac
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "Interlock needs Python 3.11 or newer as python3; found: $(python3 --version 2>&1 || true)"
    exit 1
}
if ! .venv/bin/nox --version > /dev/null 2>&1; then
    say "brings nox into .venv; nox brings Python packages into .nox (0.4 GB for matrix, 0.8 GB for tests)"
    make_environment
fi
exec .venv/bin/nox "$@"
