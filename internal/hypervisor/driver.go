// Package hypervisor is how the agent makes guests: one Driver per kind of
// guest, behind one interface. hypervisor/containerd runs containers and
// notebooks, hypervisor/libvirt VMs, hypervisor/fake the guests of simulated
// nodes.
//
// Every method can be called again after a crash at any point: a Driver keeps
// what it needs in the engine's own labels or metadata, never only in memory.
package hypervisor

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// ErrNoGuest is returned for a guest that the driver does not hold.
var ErrNoGuest = errors.New("no such guest")

// Failure is an error with a reason that the tenant sees.
type Failure struct {
	Reason  string // one of nodewire's reasons
	Message string // for the tenant: no host paths, no secrets
	Err     error  // for the log
	Final   bool   // trying again can't help
}

func (f *Failure) Error() string {
	if f.Err != nil {
		return f.Reason + ": " + f.Message + ": " + f.Err.Error()
	}
	return f.Reason + ": " + f.Message
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Spec is one guest to make: the assignment's instance plus what the other node
// packages prepared for it.
type Spec struct {
	nodewire.Instance
	Grants []device.Grant // from device.Board.Prepare
	// Folders of the instance's volumes by volume id, made and limited already.
	// A root volume's holds disk.qcow2, which the driver makes when it is absent;
	// a home's is mounted as it is.
	Folders map[string]string
	Secrets func(ctx context.Context) (nodewire.Secrets, error) // nil: it has none
}

// Progress is called as a slow step moves; percent is -1 when unknown.
type Progress func(step, message string, percent int)

// State of a guest as the engine sees it.
type State string

const (
	Prepared State = "prepared" // made, never started
	Running  State = "running"
	Exited   State = "exited"
)

// Guest is one guest that the engine holds under this cloud's id.
type Guest struct {
	ID         string
	Epoch      int64
	Generation int64
	State      State
	ExitCode   int
	OOMKilled  bool
	StartedAt  time.Time
	ExitedAt   time.Time
	Address    string
	PID        int
	Devices    []nodewire.Device // as it was made with
}

// ExecIO joins a process inside a guest to a stream.
type ExecIO struct {
	Stdin          io.Reader // nil: none
	Stdout, Stderr io.Writer // with a TTY everything arrives on Stdout
	Resize         <-chan [2]uint16
}

// Stats is one reading of a guest's own counters.
type Stats struct {
	CPUNanoseconds int64
	MemoryBytes    int64
	Pids           int64
	NetRxBytes     int64
	NetTxBytes     int64
	DiskBytes      int64
}

// LogOptions chooses which part of a guest's output is read.
type LogOptions struct {
	Tail   int // last lines; 0: all that is kept
	Follow bool
}

// Driver makes guests of one kind. All methods are safe for concurrent use on
// different guests; the agent serialises calls on one guest.
type Driver interface {
	// Name is shown to operators: containerd, libvirt, fake.
	Name() string
	// Check says which version answers, or why the driver can't be used.
	Check(ctx context.Context) (version string, err error)
	// Prepare pulls the image and makes disk and network; idempotent.
	Prepare(ctx context.Context, spec Spec, progress Progress) error
	// Start makes and starts the guest; a running one of the same epoch is left
	// alone.
	Start(ctx context.Context, spec Spec) (Guest, error)
	// Stop asks, waits for the grace, then kills; it returns when no process of
	// the guest is left. A guest that is not there is stopped.
	Stop(ctx context.Context, id string, grace time.Duration) (Guest, error)
	// Remove gives back everything the guest holds (process, disk, network,
	// logs unless keepLogs); it is an error if a process is left.
	Remove(ctx context.Context, id string, keepLogs bool) error
	// List is every guest of this cloud that the engine holds.
	List(ctx context.Context) ([]Guest, error)
	// Changes yields ids of guests that may have changed; a hint, never the truth.
	Changes(ctx context.Context) <-chan string
	// Exec runs a process inside and returns its exit code.
	Exec(ctx context.Context, id string, req nodewire.ExecRequest, streams ExecIO) (int, error)
	// Logs streams what the guest wrote.
	Logs(ctx context.Context, id string, opts LogOptions) (io.ReadCloser, error)
	// Stats reads its counters.
	Stats(ctx context.Context, id string) (Stats, error)
	// Close lets go of the engine; guests go on.
	Close() error
}

// Dialer is a Driver that reaches a TCP port inside a guest: in its network
// namespace, or at its own address. It takes no address and follows nothing.
type Dialer interface {
	Dial(ctx context.Context, id string, port int) (net.Conn, error)
}

// Neighbours is a Driver that knows where the guests of one group are to each other.
type Neighbours interface {
	// PeerAddress is a guest's address once it is prepared at that epoch; empty
	// before, and after it was removed.
	PeerAddress(p nodewire.Peer) string
}

// Pruner is a Driver that keeps images for as long as a disk in one of the node's
// volumes is based on them. The folders are those of every volume that there is.
type Pruner interface {
	Prune(ctx context.Context, folders []string) error
}

// Enclosed is a Driver whose guests each have a control group of their own, so
// that they can be ended without it. The others say a guest's process.
type Enclosed interface {
	Cgroup(id string) string
}

// Consoler is a Driver whose guests have a serial port and a screen.
type Consoler interface {
	// Console joins the serial port, what it wrote before first. Any number may be
	// joined; all see the same, and what each types goes in.
	Console(ctx context.Context, id string) (io.ReadWriteCloser, error)
	// Screen joins the guest's VNC server.
	Screen(ctx context.Context, id string) (net.Conn, error)
}
