#!/bin/sh
# install.sh PACKAGE...: installs Debian packages as root, without any service
# of theirs being started, now or at the next boot, and without a database
# cluster. setup.sh calls it with what is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# Debian asks this program before it starts a service.
guard=/usr/sbin/policy-rc.d
made_guard=
if [ ! -e "$guard" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$guard"
	chmod 0755 "$guard"
	made_guard=yes
fi
trap '[ -z "$made_guard" ] || rm -f "$guard"' EXIT INT TERM HUP

conf=/etc/postgresql-common/createcluster.conf
if [ ! -e "$conf" ]; then
	mkdir -p /etc/postgresql-common
	printf '# Written by Tenon'\''s set-up: it runs private servers of its own.\ncreate_main_cluster = false\n' >"$conf"
fi

sh "$here/step.sh" 'read package lists' apt-get -q update
# shellcheck disable=SC2086
sh "$here/step.sh" 'install packages' apt-get -q install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@"

if [ -d /run/systemd/system ]; then
	for unit in containerd nftables; do
		case " $* " in
		*" $unit "*) systemctl --quiet disable "$unit.service" 2>/dev/null || true ;;
		esac
	done
	case " $* " in
	*" libvirt-daemon-system "*)
		for unit in libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirt-guests.service virtlogd.socket virtlogd-admin.socket virtlockd.socket; do
			systemctl --quiet disable "$unit" 2>/dev/null || true
		done
		;;
	esac
fi
