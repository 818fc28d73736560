#!/bin/sh
# The first process of Tenon's debian-12 image: what it is given to run, or an
# SSH server, or, where neither can be, a wait that ends when it is asked to.
set -u
install -d -m 0755 /run/sshd
# The image holds no host keys: each container makes its own at first start.
ssh-keygen -A >/dev/null 2>&1 || true
if [ -n "${SSH_AUTHORIZED_KEYS:-}" ]; then
	install -d -m 0700 /root/.ssh
	(umask 077; printf '%s\n' "$SSH_AUTHORIZED_KEYS" >/root/.ssh/authorized_keys)
fi
[ "$#" -eq 0 ] || exec "$@"
if /usr/sbin/sshd -t; then
	exec /usr/sbin/sshd -D -e
fi
echo "tenon-init: the SSH server can't run here; waiting to be stopped" >&2
trap 'exit 0' TERM INT
while :; do
	sleep 3600 &
	wait "$!"
done
