#!/bin/sh
# The first process of Tenon's jupyter image: gives the home volume to its user,
# then runs what it is given, or the notebook server, as that user. The server
# has no password of its own: it listens inside the instance alone, and the
# gateway lets in nobody but those who may use the instance.
set -u
home=/home/tenon
if [ "$(stat -c %u "$home")" != 1000 ]; then
	chown 1000:1000 "$home"
fi
if [ ! -e "$home/.profile" ]; then
	cp -rT /etc/skel "$home"
	install -d -o 1000 -g 1000 "$home/notebooks"
	[ -e "$home/notebooks/welcome.ipynb" ] || install -o 1000 -g 1000 -m 0644 /usr/local/share/tenon/welcome.ipynb "$home/notebooks/welcome.ipynb"
	chown -R 1000:1000 "$home/.profile" "$home/.bashrc" "$home/.bash_logout" 2>/dev/null || true
fi
cd "$home"
export HOME="$home" USER=tenon LOGNAME=tenon SHELL=/bin/bash
as_user='setpriv --reuid=1000 --regid=1000 --init-groups --inh-caps=-all'
[ "$#" -eq 0 ] || exec $as_user "$@"
exec $as_user jupyter notebook --config=/etc/jupyter/tenon_notebook_config.py
