package containerd

import (
	"fmt"
	"path/filepath"
)

// SocketPath is where a cloud's private daemon listens.
func SocketPath(runDir string) string { return filepath.Join(runDir, "containerd.sock") }

// DaemonConfig is the configuration file of a cloud's private daemon: its own
// root, state and socket, and none of the plugins that a Kubernetes node needs.
// Start it as `containerd --config FILE`.
func DaemonConfig(stateDir, runDir string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = -500
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = %q
  max_recv_message_size = 16777216
  max_send_message_size = 16777216

[ttrpc]
  address = %q

[metrics]
  address = ""

[plugins."io.containerd.gc.v1.scheduler"]
  startup_delay = "10s"
`, filepath.Join(stateDir, "containerd"), filepath.Join(runDir, "containerd"), SocketPath(runDir), SocketPath(runDir)+".ttrpc")
}
