package containerd

import (
	"net"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// openFiles is the guest's limit of open files. A guest's user namespace can't
// have more than the daemon has, so the daemon's own limit is asked of the kernel.
func (d *Driver) openFiles() *specs.POSIXRlimit {
	hard := uint64(openFilesHard)
	if bound, err := peerOpenFiles(d.cfg.Socket); err == nil {
		hard = min(hard, bound)
	}
	return &specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Soft: min(hard, openFilesSoft), Hard: hard}
}

// peerOpenFiles is the hard limit of the process that listens on a socket.
func peerOpenFiles(socket string) (uint64, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var limit unix.Rlimit
	var perr error
	err = raw.Control(func(fd uintptr) {
		var peer *unix.Ucred
		if peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); perr == nil {
			perr = unix.Prlimit(int(peer.Pid), unix.RLIMIT_NOFILE, nil, &limit)
		}
	})
	if err == nil {
		err = perr
	}
	return limit.Max, err
}
