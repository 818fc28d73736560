#!/bin/sh
# install.sh TREE PACKAGE...: packages whose set-up needs one another in order,
# which debootstrap does not keep. Run in a mount namespace of its own.
set -eu
tree=$1
shift
mount -t proc proc "$tree/proc"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d" # no service starts
chmod 755 "$tree/usr/sbin/policy-rc.d"
chroot "$tree" apt-get -qq update
chroot "$tree" apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 install "$@"
rm -f "$tree/usr/sbin/policy-rc.d"
