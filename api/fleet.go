package api

import "time"

// Pool is a set of nodes that work is steered to by name.
type Pool struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Simulated bool   `json:"simulated" doc:"Gets work only when it is asked for by name"`
}

// Node is a hypervisor.
type Node struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	Pool          string     `json:"pool"`
	State         string     `json:"state" enum:"ready,late,lost"`
	Drained       bool       `json:"drained" doc:"An operator's: no new placements"`
	Simulated     bool       `json:"simulated"`
	VCPU          int        `json:"vcpu" doc:"What the host has"`
	MemoryMiB     int64      `json:"memory_mib"`
	CPUOvercommit float64    `json:"cpu_overcommit" doc:"vCPUs sold per vCPU of the host"`
	UsedVCPU      int        `json:"used_vcpu"`
	UsedMemoryMiB int64      `json:"used_memory_mib"`
	AgentVersion  string     `json:"agent_version"`
	Generation    int64      `json:"generation" doc:"Of its assignment"`
	AckGeneration int64      `json:"ack_generation" doc:"The last that the node holds"`
	LastSeenAt    *time.Time `json:"last_seen_at,omitempty"`
	CreatedAt     time.Time  `json:"created_at"`
	GPUs          []GPU      `json:"gpus"`

	Labels     map[string]string `json:"labels,omitempty" doc:"Its rack and zone, as it says"`
	Kinds      []string          `json:"kinds" doc:"Of instances that it can run"`
	Drivers    map[string]string `json:"drivers,omitempty" doc:"What runs its guests: version and mode (VMs: KVM or emulated, and why), or why it can't be used"`
	Watchdog   bool              `json:"watchdog" doc:"It ends by itself what may restart elsewhere, once it has lost contact"`
	FencedAt   *time.Time        `json:"fenced_at,omitempty" doc:"Since when what may restart elsewhere is known not to run on it"`
	FencedBy   string            `json:"fenced_by,omitempty" enum:"operator,watchdog" doc:"Who made sure: a person, or its own time-out"`
	Orphans    []Orphan          `json:"orphans" doc:"What it has and nobody assigned"`
	Excluded   []ExcludedDevice  `json:"excluded" doc:"Functions that look like GPUs and are not offered"`
	Partitions []Partition       `json:"partitions" doc:"Of its NVSwitches, as Fabric Manager lists them: a VM gets the cards of exactly one"`
	Stays      *NodeStayCounts   `json:"stays,omitempty" doc:"How much a drain leaves on it; where one node is shown"`
}

// Partition is a set of cards behind NVSwitches that one VM can get.
type Partition struct {
	ID      int      `json:"id" doc:"Fabric Manager's"`
	GPUs    []string `json:"gpus" doc:"PCI addresses"`
	Foreign bool     `json:"foreign" doc:"Active, and not the platform's doing: no VM gets its cards"`
}

// NodeStayCounts are how many of each reason stay on a node.
type NodeStayCounts struct {
	Running      int `json:"running"`
	Stopping     int `json:"stopping"`
	Held         int `json:"held"`
	Volumes      int `json:"volumes" doc:"Of instances that don't run there now"`
	FencedClaims int `json:"fenced_claims" doc:"Instances that went elsewhere and whose GPUs it still has to give back"`
	Orphans      int `json:"orphans"`
}

// GPU is a physical card.
type GPU struct {
	ID         string      `json:"id"`
	Node       string      `json:"node"`
	NodeID     string      `json:"node_id"`
	UUID       string      `json:"uuid"`
	PCIAddress string      `json:"pci_address"`
	Index      int         `json:"index" doc:"For display; changes between boots"`
	Model      string      `json:"model"`
	ModelName  string      `json:"model_name"`
	Geometry   string      `json:"geometry"`
	Mode       string      `json:"mode" enum:"whole,mig,shared,vgpu"`
	State      string      `json:"state" enum:"ready,cleaning,needs_reset,quarantined,unhealthy,missing,unknown"`
	Reason     string      `json:"reason,omitempty" doc:"Why it is not ready, or not for every kind of instance"`
	MemoryMiB  int64       `json:"memory_mib"`
	NUMANode   int         `json:"numa_node" doc:"-1 when unknown"`
	NVLink     []string    `json:"nvlink" doc:"PCI addresses of the cards joined to it"`
	Simulated  bool        `json:"simulated"`
	Slots      int         `json:"slots" doc:"Memory slots of its geometry"`
	Claims     []Claim     `json:"claims" doc:"Live holds"`
	Free       []FreePlace `json:"free" doc:"Where a slice could start now, by profile"`

	Vendor     string       `json:"vendor,omitempty" doc:"PCI vendor id"`
	Device     string       `json:"device,omitempty" doc:"PCI device id"`
	Driver     string       `json:"driver,omitempty" doc:"Of its function, on its node"`
	Modes      []string     `json:"modes" doc:"That it can be in on its node; none: the node doesn't say"`
	Companions []string     `json:"companions" doc:"Functions that go to a VM with it"`
	Bundle     []string     `json:"bundle" doc:"Cards that a VM can only get together with it"`
	NotForVM   bool         `json:"not_for_vm" doc:"No VM can have it whole; the reason says why"`
	Profiles   []GPUProfile `json:"profiles" doc:"That MIG can cut it into, whatever mode it is in"`
	VGPUTypes  []VGPUType   `json:"vgpu_types" doc:"That its host driver offers"`
	Slices     []GPUSlice   `json:"slices" doc:"That exist on it now"`
	Missing    []GPUPlace   `json:"missing" doc:"Places of its layout that its driver doesn't show"`
	Wish       *GPUWish     `json:"wish,omitempty" doc:"What an operator wants it to be"`
	Changing   bool         `json:"changing" doc:"It is not yet what is wished: it takes nothing new"`
	WishReason string       `json:"wish_reason,omitempty" doc:"Why not, as its node says"`
	Revision   int64        `json:"revision" doc:"Of what is wished, 0 before anybody did; the ETag"`
	Checking   bool         `json:"checking" doc:"An operator asked for a check that its node has not made yet"`
}

// Claim is a live hold of a GPU's slots by an instance.
type Claim struct {
	GPUID        string     `json:"gpu_id"`
	Model        string     `json:"model,omitempty"`
	ModelName    string     `json:"model_name,omitempty"`
	Mode         string     `json:"mode"`
	Profile      string     `json:"profile"`
	ProfileName  string     `json:"profile_name"`
	SlotStart    int        `json:"slot_start"`
	SlotEnd      int        `json:"slot_end" doc:"One past the last"`
	InstanceID   string     `json:"instance_id"`
	Instance     string     `json:"instance,omitempty"`
	Organisation string     `json:"organisation,omitempty"`
	Simulated    bool       `json:"simulated"`
	CreatedAt    *time.Time `json:"created_at,omitempty"`
}

// FreePlace is where a slice could start.
type FreePlace struct {
	Profile     string `json:"profile"`
	ProfileName string `json:"profile_name"`
	SlotStart   int    `json:"slot_start"`
	SlotEnd     int    `json:"slot_end"`
}

// GPUSample is one moment of a card.
type GPUSample struct {
	GPUID        string    `json:"gpu_id"`
	UUID         string    `json:"uuid"`
	At           time.Time `json:"at"`
	Percent      float64   `json:"percent"`
	MemoryMiB    float64   `json:"memory_mib"`
	PowerWatts   float64   `json:"power_watts"`
	TemperatureC float64   `json:"temperature_c"`
	Simulated    bool      `json:"simulated"`
}

// GPUMetrics is the present moment of every card that could be asked.
type GPUMetrics struct {
	Items       []GPUSample `json:"items"`
	Unreachable []string    `json:"unreachable,omitempty" doc:"Nodes that could not be asked; their cards are missing here, not idle"`
}

// Capacity is one truth about how many cards there are.
type Capacity struct {
	Total  CapacityLine   `json:"total"`
	Models []CapacityLine `json:"models" doc:"By model; simulated cards apart"`
}

// CapacityLine counts cards. One out of service is in total and not in healthy.
type CapacityLine struct {
	Model      string `json:"model,omitempty"`
	ModelName  string `json:"model_name,omitempty"`
	Simulated  bool   `json:"simulated"`
	Total      int    `json:"total"`
	Healthy    int    `json:"healthy"`
	Used       int    `json:"used" doc:"Cards that anyone holds a part of"`
	Free       int    `json:"free" doc:"Healthy and held by nobody"`
	SlotsTotal int    `json:"slots_total" doc:"Memory slots of the cards that are cut"`
	SlotsUsed  int    `json:"slots_used"`
}

// JoinTokenCreate asks for a token with which one node may enrol.
type JoinTokenCreate struct {
	Pool             string `json:"pool,omitempty" maxLength:"63" default:"default"`
	ExpiresInMinutes int    `json:"expires_in_minutes,omitempty" minimum:"1" maximum:"10080" default:"60"`
}

// JoinToken enrols one node, once.
type JoinToken struct {
	JoinToken string    `json:"join_token" doc:"Shown once"`
	Pool      string    `json:"pool"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Alarm tells operators of something that needs a person.
type Alarm struct {
	ID             string     `json:"id"`
	Key            string     `json:"key" doc:"One open alarm per key"`
	Severity       string     `json:"severity" enum:"warning,critical"`
	State          string     `json:"state" enum:"open,acknowledged,cleared"`
	Subject        string     `json:"subject" doc:"Id of what it is about"`
	Message        string     `json:"message"`
	OpenedAt       time.Time  `json:"opened_at"`
	AcknowledgedAt *time.Time `json:"acknowledged_at,omitempty"`
	ClearedAt      *time.Time `json:"cleared_at,omitempty"`
}

// NodeStay is what a drain leaves on a node, and why.
type NodeStay struct {
	InstanceID string `json:"instance_id,omitempty"`
	Instance   string `json:"instance,omitempty" doc:"Name; operators see no more of a tenant's instance"`
	Org        string `json:"org,omitempty"`
	VolumeID   string `json:"volume_id,omitempty"`
	Orphan     string `json:"orphan,omitempty" doc:"Id of what nobody assigned"`
	Kind       string `json:"kind"`
	State      string `json:"state"`
	Reason     string `json:"reason" doc:"For programs: running, held, volume, stopping, fenced_claim, orphan"`
	Message    string `json:"message" doc:"Why it stays, and what would move it"`
}

// Replica is one process of the control plane.
type Replica struct {
	ID        string    `json:"id"`
	Address   string    `json:"address"`
	Version   string    `json:"version"`
	Leader    bool      `json:"leader"`
	Nodes     int       `json:"nodes" doc:"How many are connected to it"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
}

// Orphan is what a node runs or keeps and nobody assigned. It is never destroyed
// unless an operator says so.
type Orphan struct {
	Driver string `json:"driver"`
	ID     string `json:"id"`
	What   string `json:"what"`
}
