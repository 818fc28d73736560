// Package nodewire is the seam between the control plane and a node: the types
// that cross it, in JSON over the connections of package tunnel. Both sides
// import it and neither side's packages import the other's.
//
// Direction: the control plane PUTs a whole Assignment; the node POSTs Reports.
// Ids cross as printed strings, since a node has no business interpreting them.
package nodewire

import "time"

// Paths of the node's own HTTP service, reached through a reverse connection.
const (
	PathAssignment = "/assignment"             // PUT Assignment → 200 Held, or 409 Held
	PathLogs       = "/instances/{id}/logs"    // GET ?tail=N&follow=true → text/plain, chunked
	PathExec       = "/instances/{id}/exec"    // GET, Upgrade: tenon-exec/1, ExecRequest in the Tenon-Exec header (base64 JSON) → frames
	PathMetrics    = "/instances/{id}/metrics" // GET → InstanceMetrics
	PathGPUMetrics = "/gpus/metrics"           // GET → []GPUSample
	PathNodeHealth = "/healthz"
	PathPort       = "/instances/{id}/ports/{port}" // GET, Upgrade: tenon-port/1 → raw bytes to that port inside the instance, never elsewhere
	PathConsole    = "/instances/{id}/console"      // GET, Upgrade: tenon-console/1 → raw bytes of a VM's serial port, what it wrote before first
	PathScreen     = "/instances/{id}/screen"       // GET, Upgrade: tenon-screen/1 → raw RFB (VNC) of a VM's screen
)

// Paths of the control plane's node door (mutual TLS, except enrolment).
const (
	PathEnroll  = "/v1/enroll"                 // POST EnrollRequest → EnrollResponse; no client certificate yet
	PathRenew   = "/v1/renew"                  // POST RenewRequest → EnrollResponse
	PathReports = "/v1/reports"                // POST Report → ReportAnswer
	PathConnect = "/v1/connect"                // GET, Upgrade: tenon-reverse/1; afterwards the node serves HTTP/1.1 on it
	PathSecrets = "/v1/instances/{id}/secrets" // GET → Secrets of an instance that is placed on the node; never in its ledger
	// The embedded registry is under /v2/ at the same door, read-only, for the
	// images of the node's own assignment.
)

// Protocol names in the Upgrade header.
const (
	UpgradeReverse = "tenon-reverse/1"
	UpgradeExec    = "tenon-exec/1"
	UpgradePort    = "tenon-port/1"
	UpgradeConsole = "tenon-console/1"
	UpgradeScreen  = "tenon-screen/1"
)

// Version orders assignments: a newer era always wins (a database restore makes
// a new one), then the greater generation. Eras are UUIDv7 and compare as text.
type Version struct {
	Era        string `json:"era"`
	Generation int64  `json:"generation"`
}

// Newer reports whether v replaces o.
func (v Version) Newer(o Version) bool {
	if v.Era != o.Era {
		return v.Era > o.Era
	}
	return v.Generation > o.Generation
}

// Held answers an assignment: 200 with the version now held, 409 with the newer
// one that the node keeps.
type Held struct {
	Version
	Message string `json:"message,omitempty"`
}

// Assignment is everything that a node must make so. What is absent must be
// absent, except what the node does not own.
type Assignment struct {
	Version
	NodeID    string     `json:"node_id"`
	CloudID   string     `json:"cloud_id"`
	Instances []Instance `json:"instances"`
	// Volumes are all that the node must keep or remove. One that it has and that
	// is not listed is an orphan: data is removed by name only.
	Volumes []Volume `json:"volumes,omitempty"`
	// Remove names what the node runs or keeps, nobody assigned, and an operator
	// let go: ids of instances and volumes.
	Remove []string `json:"remove,omitempty"`
	// Cards are what cards are to be; one that is not named stays as it is.
	Cards []Card `json:"cards,omitempty"`
}

// Volume is data that outlives a run, at its node.
type Volume struct {
	ID      string `json:"id"`
	OrgID   string `json:"org_id"`
	Role    string `json:"role"` // root: a VM's disk; home: a notebook's folder
	SizeMiB int64  `json:"size_mib"`
	Desired string `json:"desired"`        // VolumePresent or VolumeGone
	Made    bool   `json:"made,omitempty"` // the node has had it: where it is missing it is lost, and not made anew
}

// Desired and reported states of a volume.
const (
	VolumePresent = "present"
	VolumeGone    = "gone"
	VolumeFailed  = "failed" // Message says why
)

// Mount joins a volume to a guest.
type Mount struct {
	VolumeID string `json:"volume_id"`
	Role     string `json:"role"`
	Path     string `json:"path,omitempty"` // inside; empty for a root disk
}

// Secrets are what an instance needs and the ledger must not hold.
type Secrets struct {
	UserData []byte            `json:"user_data,omitempty"` // cloud-init's, as the tenant gave it
	Registry *RegistryPassword `json:"registry,omitempty"`  // of the registry that its image comes from
}

// RegistryPassword opens a registry that is not ours.
type RegistryPassword struct {
	Host     string `json:"host"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// Desired states of an instance on a node.
const (
	DesiredRunning = "running"
	DesiredStopped = "stopped" // end it gracefully, give everything back, report stopped
	DesiredGone    = "gone"    // end it, remove every trace, report gone
)

// Instance is one guest as its node must make it.
type Instance struct {
	ID               string            `json:"id"`
	Epoch            int64             `json:"epoch"`      // of this placement; reports echo it
	Generation       int64             `json:"generation"` // of the intent; a change while running is a restart
	OrgID            string            `json:"org_id"`     // chooses the user-namespace id range
	Kind             string            `json:"kind"`       // container, vm, notebook
	Name             string            `json:"name"`       // host name inside
	Desired          string            `json:"desired"`
	Image            Image             `json:"image"`
	Command          []string          `json:"command,omitempty"` // replaces the image's entry point and command
	Env              map[string]string `json:"env,omitempty"`
	VCPU             int               `json:"vcpu"`
	MemoryMiB        int64             `json:"memory_mib"`
	DiskMiB          int64             `json:"disk_mib"`
	PidsMax          int64             `json:"pids_max"`
	StopGraceSeconds int               `json:"stop_grace_seconds"`
	Devices          []Device          `json:"devices,omitempty"`
	Mounts           []Mount           `json:"mounts,omitempty"`
	SSHKeys          []string          `json:"ssh_keys,omitempty"`           // authorised for the image's user
	HasUserData      bool              `json:"has_user_data,omitempty"`      // fetch it apart
	StopAfterSeconds int               `json:"stop_after_seconds,omitempty"` // without contact the node ends it by itself; 0: never
	Expected         bool              `json:"expected,omitempty"`           // it ran here before the control plane was restored: of which nothing is here is gone, and not made
	AppPort          int               `json:"app_port,omitempty"`           // a notebook's server, asked whether it is busy
	// Group is whom it may reach on this node besides: the guests of the same group.
	// Peers are those, itself among them. It starts once each of them has an address
	// here, and knows these by name.
	Group string `json:"group,omitempty"`
	Peers []Peer `json:"peers,omitempty"`
}

// Peer is a guest of one's own group.
type Peer struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Name  string `json:"name"` // host name
}

// Image says what to pull; the digest decides, the reference is where from.
type Image struct {
	Ref      string `json:"ref"`               // repository[:tag], with its registry's host unless embedded
	Digest   string `json:"digest"`            // sha256:… of the manifest
	Embedded bool   `json:"embedded"`          // pull through the node door
	Private  bool   `json:"private,omitempty"` // its registry wants a password: fetch it apart
}

// Device is a share of a GPU at an exact place.
type Device struct {
	GPUUUID   string `json:"gpu_uuid"`
	Mode      string `json:"mode"`    // whole, mig
	Profile   string `json:"profile"` // whole, or the MIG profile class
	SlotStart int    `json:"slot_start"`
	SlotEnd   int    `json:"slot_end"`
}

// States that a node reports of an instance.
const (
	GuestPending  = "pending"  // known, not begun
	GuestPulling  = "pulling"  // its image is on the way; Progress says how far
	GuestStarting = "starting" // devices, disk, network, process
	GuestRunning  = "running"
	GuestStopping = "stopping"
	GuestStopped  = "stopped" // ended (ExitCode, LastLines) and its process and devices are proven gone
	GuestFailed   = "failed"  // could not be made so; its process and devices are proven gone
	GuestGone     = "gone"    // no trace is left
)

// Reasons that go with failed and stopped.
const (
	ReasonImagePull   = "image_pull_failed"
	ReasonDevice      = "device_failed"
	ReasonNetwork     = "network_failed"
	ReasonStart       = "start_failed"
	ReasonExited      = "exited"
	ReasonOOM         = "out_of_memory"
	ReasonDiskFull    = "node_disk_full"
	ReasonAsked       = "asked"
	ReasonInterrupted = "interrupted"   // the node's services lost it while it ran
	ReasonRebooted    = "node_rebooted" // the node was booted again under it
	ReasonFenced      = "fenced"        // its node ended it, having lost contact for too long
	ReasonStray       = "stray"         // another run of it, from before a restore, is in the way
	ReasonPowerOff    = "power_off"     // the guest switched itself off
	ReasonVolume      = "volume_failed"
)

// Report is a node's whole view. It frees nothing by itself: the control plane
// compares epochs and releases in its own transaction.
type Report struct {
	Version                     // of the assignment held
	Sequence  int64             `json:"sequence"` // grows while the agent lives
	BootID    string            `json:"boot_id"`
	Agent     string            `json:"agent_version"`
	VCPU      int               `json:"vcpu"`
	MemoryMiB int64             `json:"memory_mib"`
	GPUs      []GPU             `json:"gpus"`
	ProbeOK   bool              `json:"probe_ok"` // false: the GPU list is the last known one, states unknown
	Instances []InstanceReport  `json:"instances"`
	Orphans   []Orphan          `json:"orphans,omitempty"`
	Drivers   map[string]string `json:"drivers"` // driver → version or why it is unusable
	Kinds     []string          `json:"kinds"`   // of instances that usable drivers can run
	Volumes   []VolumeReport    `json:"volumes,omitempty"`
	Excluded  []Excluded        `json:"excluded,omitempty"`
	// Partitions of its NVSwitches; a VM gets the cards of exactly one. Cards that
	// are in none hang on no switch.
	Partitions []Partition       `json:"partitions,omitempty"`
	Incidents  []Incident        `json:"incidents,omitempty"` // of late; each is repeated until it is old
	Labels     map[string]string `json:"labels,omitempty"`    // rack, zone
	Watchdog   bool              `json:"watchdog"`            // a process apart ends guests when contact is lost, even if the agent can't
}

// InstanceReport is what became of one instance. Its durations are monotonic;
// the control plane clamps them to [assignment sent, report received].
type InstanceReport struct {
	ID              string  `json:"id"`
	Epoch           int64   `json:"epoch"`
	Generation      int64   `json:"generation"`
	State           string  `json:"state"`
	Reason          string  `json:"reason,omitempty"`
	Message         string  `json:"message,omitempty"`
	Progress        *int    `json:"progress,omitempty"` // percent
	ExitCode        *int    `json:"exit_code,omitempty"`
	LastLines       string  `json:"last_lines,omitempty"`
	Address         string  `json:"address,omitempty"`
	StateForSeconds float64 `json:"state_for_seconds"` // since it entered State
	RanForSeconds   float64 `json:"ran_for_seconds"`   // of this run, so far or in all

	Activity *Activity `json:"activity,omitempty"` // of a notebook; nil: not known, which is not idle
}

// Activity is whether anything goes on in a notebook. An open browser tab is
// not activity.
type Activity struct {
	BusyKernels  int      `json:"busy_kernels"`
	Kernels      int      `json:"kernels"`
	QuietSeconds float64  `json:"quiet_seconds"`         // since a kernel last did anything
	Sessions     int      `json:"sessions"`              // terminals and SSH joined to it now
	GPUPercent   *float64 `json:"gpu_percent,omitempty"` // the highest of late; nil: not known
	HasGPU       bool     `json:"has_gpu"`
}

// VolumeReport is what became of a volume.
type VolumeReport struct {
	ID      string `json:"id"`
	State   string `json:"state"` // present, gone, failed
	UsedMiB int64  `json:"used_mib"`
	Message string `json:"message,omitempty"`
}

// Orphan is something that the node runs and nobody assigned: shown, an alarm,
// never destroyed.
type Orphan struct {
	Driver string `json:"driver"`
	ID     string `json:"id"`
	What   string `json:"what"`
}

// ReportAnswer says what the control plane took from a report.
type ReportAnswer struct {
	Sequence        int64 `json:"sequence"`
	NextSeconds     int   `json:"next_seconds"` // report again after this, or at once when something changes
	WantsAssignment bool  `json:"wants_assignment"`
}

// EnrollRequest turns a one-use join token into a certificate.
type EnrollRequest struct {
	JoinToken string `json:"join_token"`
	Name      string `json:"name"`
	CSR       string `json:"csr"` // PEM
	VCPU      int    `json:"vcpu"`
	MemoryMiB int64  `json:"memory_mib"`
}

// RenewRequest asks for a fresh certificate with the old one as proof.
type RenewRequest struct {
	CSR string `json:"csr"`
}

// EnrollResponse is a node's identity.
type EnrollResponse struct {
	NodeID      string    `json:"node_id"`
	CloudID     string    `json:"cloud_id"`
	Certificate string    `json:"certificate"` // PEM, short-lived
	CA          string    `json:"ca"`          // PEM
	NotAfter    time.Time `json:"not_after"`
}

// ExecRequest starts a process inside a running guest, in the guest's own
// cgroups, namespaces and device rules.
type ExecRequest struct {
	Command []string          `json:"command"` // empty: a login shell
	TTY     bool              `json:"tty"`
	Columns int               `json:"columns,omitempty"`
	Rows    int               `json:"rows,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// InstanceMetrics is the node's ring of samples, oldest first.
type InstanceMetrics struct {
	IntervalSeconds int      `json:"interval_seconds"`
	Samples         []Sample `json:"samples"`
	Simulated       bool     `json:"simulated"` // the GPU figures are
}

// Sample is one moment of an instance.
type Sample struct {
	At              time.Time `json:"at"`
	CPUPercent      float64   `json:"cpu_percent"` // of one CPU
	MemoryMiB       float64   `json:"memory_mib"`
	NetRxBytes      int64     `json:"net_rx_bytes"` // since it started
	NetTxBytes      int64     `json:"net_tx_bytes"`
	DiskMiB         float64   `json:"disk_mib"` // of the writable layer
	Pids            int64     `json:"pids"`
	GPUPercent      *float64  `json:"gpu_percent,omitempty"` // nil: not known, which is not idle
	GPUMemoryMiB    *float64  `json:"gpu_memory_mib,omitempty"`
	GPUPowerWatts   *float64  `json:"gpu_power_watts,omitempty"`
	GPUTemperatureC *float64  `json:"gpu_temperature_c,omitempty"`
}

// GPUSample is one moment of a card.
type GPUSample struct {
	UUID         string    `json:"uuid"`
	At           time.Time `json:"at"`
	Percent      float64   `json:"percent"`
	MemoryMiB    float64   `json:"memory_mib"`
	PowerWatts   float64   `json:"power_watts"`
	TemperatureC float64   `json:"temperature_c"`
	Simulated    bool      `json:"simulated"`
}
