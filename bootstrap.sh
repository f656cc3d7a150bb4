#!/bin/sh
# Brings nox, and on Debian and Ubuntu the packages that it cannot do without, and runs it with the arguments given:
#   sh bootstrap.sh -s matrix -- --quick --yes
#   sh bootstrap.sh -s tests
# What measuring needs besides is brought by playbooks/host.yml, if --yes allows it.
set -eu
cd "$(dirname "$0")"

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_debian_packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    as_root apt-get update -q
    # shellcheck disable=SC2086  one word per package
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}

if command -v dpkg-query > /dev/null; then
    # With Debian's keys mmdebstrap checks who signed what it makes a base of; without them it makes none.
    install_debian_packages debian-archive-keyring python3 python3-venv
    # The tests make bases with mmdebstrap, compile, ask registries and fleets of their own, and look at the report with
    # Chromium: the headless shell takes a third less time. Ubuntu has no package: there nox has playwright bring one.
    case " $* " in *" tests "* | *" unit "* | *" proofs "* | *" torture "*)
        # Without its lists apt does not know which of its mirrors is Debian's, which mmdebstrap needs.
        ls /var/lib/apt/lists/*_Packages* > /dev/null 2>&1 || as_root apt-get update -q
        install_debian_packages binutils ca-certificates curl docker-registry gcc gnupg gpgv libc6-dev make \
            mmdebstrap nginx-light openssh-client openssl patch perl pkg-config uidmap util-linux xz-utils
        for browser in chromium-headless-shell chromium; do
            apt-cache show "$browser" > /dev/null 2>&1 || continue
            install_debian_packages "$browser" fonts-dejavu-core
            break
        done ;;
    esac
    # One proof is that Podman does what Docker does.
    case " $* " in *" proofs "*) install_debian_packages catatonit podman ;; esac
fi
if ! .venv/bin/nox --version > /dev/null 2>&1; then
    python3 -m venv --clear .venv
    .venv/bin/python -m pip install -q --require-hashes --only-binary :all: -r requirements/nox.txt
fi
exec .venv/bin/nox "$@"
