#!/bin/sh
# The README's commands on a machine that has what the README names and nothing else: debootstrap's
# minimal Debian in FOLDER, as a user who is not root and may write nothing of their home but ~/.cache.
# Run by root:
#
#   ci/bare-machine.sh FOLDER [RELEASE] [SUITES]       # bookworm, all suites
#
# MIRROR is the Debian mirror. UV_CACHE, a folder that uid 1000 may write, keeps downloads between trials.
# The host's name servers, certificates and pip settings are taken over; all else is the chroot's.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$1 release=${2:-bookworm} suites=${3:-}

if [ "${BARE_MACHINE_MOUNTS:-}" != own ]; then
    # Mounts of its own: they end with this script, however that ends.
    exec env BARE_MACHINE_MOUNTS=own unshare --mount --fork --pid --kill-child "$0" "$@"
fi
[ -x "$folder/usr/bin/apt-get" ] || debootstrap --variant=minbase "$release" "$folder" ${MIRROR:-}
mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"

packages=$(sed -n 's/^apt-get install //p' "$here/README.md")
chroot "$folder" apt-get update --quiet
# shellcheck disable=SC2086 # one word a package
chroot "$folder" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --quiet --no-install-recommends $packages
# After the packages: ca-certificates writes the file anew.
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$folder/etc/"

chroot "$folder" id 1000 > /dev/null 2>&1 ||
    chroot "$folder" useradd --no-create-home --home-dir /srv/tester --uid 1000 tester
home=$folder/srv/tester # not the tester's to write, but for .cache
install -d "$home"
install -d -o 1000 -g 1000 "$home/.cache" "$home/.cache/uv"
[ -z "${UV_CACHE:-}" ] || mount --bind "$UV_CACHE" "$home/.cache/uv"
rm -rf "$home/series"
git clone --quiet --no-hardlinks "$here" "$home/series"
chown -R 1000:1000 "$home/series"
# shellcheck disable=SC2016 # the inner shell's own
exec chroot --userspec=1000:1000 "$folder" env -i \
    HOME=/srv/tester PATH=/usr/local/bin:/usr/bin:/bin SUITES="$suites" \
    ${SSL_CERT_FILE:+SSL_CERT_FILE="$SSL_CERT_FILE"} \
    sh -euc 'cd ~/series && python3 --version && make apply && make test'
