package gateway

import (
	"time"

	"golang.org/x/sys/unix"
)

func peerOfSocket(fd int) (peer, bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return peer{}, false
	}
	return peer{waiting: info.Unacked > 0 || info.Notsent_bytes > 0, silent: time.Duration(info.Last_ack_recv) * time.Millisecond}, true
}
