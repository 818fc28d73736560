package api

import "time"

// States of an instance.
const (
	StateQueued   = "queued"
	StateStarting = "starting"
	StateRunning  = "running"
	StateStopping = "stopping"
	StateStopped  = "stopped"
	StateFailed   = "failed"
	StateDeleting = "deleting"
	StateDeleted  = "deleted"
)

// Shape is what an instance holds while it runs, and what it is charged for.
type Shape struct {
	GPUCount       int    `json:"gpu_count" doc:"Cards or slices"`
	GPUModel       string `json:"gpu_model,omitempty" doc:"Key of the model: h100-80gb"`
	GPUModelName   string `json:"gpu_model_name,omitempty" doc:"For people: H100 80 GB"`
	GPUMode        string `json:"gpu_mode,omitempty" enum:"whole,mig,shared,vgpu"`
	GPUProfile     string `json:"gpu_profile,omitempty" doc:"Class of the MIG profile: 1g, 1g+me, 1g2, 2g, 3g, 4g, 7g; share4 or vgpu8 for equal parts; whole for a card"`
	GPUProfileName string `json:"gpu_profile_name,omitempty" doc:"As the driver spells it on this model: 1g.10gb"`
	GPUMemoryMiB   int64  `json:"gpu_memory_mib,omitempty" doc:"Of a flavor: usable memory of one card or slice, the least that a driver tells of those there are; absent while none has told"`
	GPUSMs         int    `json:"gpu_sms,omitempty" doc:"Of a flavor: streaming multiprocessors of a slice, likewise"`
	VCPU           int    `json:"vcpu"`
	MemoryMiB      int64  `json:"memory_mib"`
	DiskMiB        int64  `json:"disk_mib" doc:"Limit of the writable layer"`
}

// Instance is anything that runs and holds resources.
type Instance struct {
	ID          string `json:"id" example:"inst_01k3zq8h2mfw4v8y0c6d9r2t5x"`
	Name        string `json:"name" example:"web-1"`
	Project     string `json:"project"`
	ProjectID   string `json:"project_id"`
	Kind        string `json:"kind" enum:"container,vm,notebook"`
	Image       string `json:"image"`
	ImageID     string `json:"image_id"`
	ImageDigest string `json:"image_digest" doc:"What runs; resolved when the instance was created"`
	Flavor      string `json:"flavor"`
	FlavorID    string `json:"flavor_id"`
	Pool        string `json:"pool"`
	Shape
	Command []string          `json:"command,omitempty" doc:"Replaces the image's entry point and command"`
	Env     map[string]string `json:"env,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	DesiredState       string     `json:"desired_state" enum:"running,stopped,deleted"`
	State              string     `json:"state" enum:"queued,starting,running,stopping,stopped,failed,deleting,deleted"`
	Generation         int64      `json:"generation" doc:"Of what is wanted; the ETag"`
	ObservedGeneration int64      `json:"observed_generation" doc:"Of what its node has done"`
	Reason             string     `json:"reason,omitempty" doc:"For programs: no_capacity, image_pull_failed, exited"`
	Message            string     `json:"message,omitempty" doc:"For a person: what it waits for, or why it ended"`
	Reasons            []Reason   `json:"reasons,omitempty" doc:"While queued: why each place was refused, with counts"`
	Progress           *int       `json:"progress,omitempty" doc:"Percent of the present step, when known"`
	ExitCode           *int       `json:"exit_code,omitempty"`
	LastLines          string     `json:"last_lines,omitempty" doc:"Of its log, when it ended by itself"`
	Node               string     `json:"node,omitempty"`
	Address            string     `json:"address,omitempty" doc:"On its node's bridge"`
	OnStop             string     `json:"on_stop" enum:"release,hold" doc:"What a stop does with its place: release it, or hold it, charged as if it ran (VMs)"`
	Held               bool       `json:"held" doc:"Stopped, and keeps its place and its GPUs; charged"`
	OnNodeLoss         string     `json:"on_node_loss" enum:"wait,restart" doc:"When its node is lost: wait for it, or start elsewhere once the node is fenced"`
	OnNodeReboot       string     `json:"on_node_reboot" enum:"restart,fail" doc:"When its node was booted again: restart it there, on the same GPUs, the time down uncharged, or let it fail"`
	SSHKeys            []string   `json:"ssh_keys,omitempty" doc:"Authorised at its first boot (VMs)"`
	Volumes            []Volume   `json:"volumes,omitempty" doc:"Data that outlives a stop"`
	JobID              string     `json:"job_id,omitempty" doc:"Of the job that it is a member of"`
	Job                string     `json:"job,omitempty" doc:"That job's name"`
	Rank               *int       `json:"rank,omitempty" doc:"In that job, from 0; of an array, the task's index"`
	IdleSince          *time.Time `json:"idle_since,omitempty" doc:"Notebooks: since when nothing went on"`
	IdleStopAt         *time.Time `json:"idle_stop_at,omitempty" doc:"When the project's policy will stop it, if it stays idle"`
	Simulated          bool       `json:"simulated" doc:"Its GPUs, or the whole guest, are simulated"`
	GPUs               []Claim    `json:"gpus,omitempty" doc:"What it holds now"`
	PricePerHourMicros *int64     `json:"price_per_hour_micros,omitempty" doc:"While it runs, with what it keeps; absent when a price is missing"`
	PriceNowMicros     *int64     `json:"price_now_micros,omitempty" doc:"Per hour in its present state: running or held in full, stopped what it keeps alone"`
	QueuePlace         int        `json:"queue_place,omitempty" doc:"While queued, of one: its place in its pool's queue, from 1"`
	Currency           string     `json:"currency,omitempty"`
	CreatedBy          string     `json:"created_by"`
	CreatedAt          time.Time  `json:"created_at"`
	StartedAt          *time.Time `json:"started_at,omitempty" doc:"Of the present run"`
	StateAt            time.Time  `json:"state_at" doc:"When it entered its state"`
	DeadlineAt         *time.Time `json:"deadline_at,omitempty" doc:"When the present state becomes a failure"`
	DeletedAt          *time.Time `json:"deleted_at,omitempty"`
}

// InstanceCreate asks for an instance.
type InstanceCreate struct {
	Name         string            `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen" example:"web-1"`
	Image        string            `json:"image" minLength:"1" maxLength:"255" doc:"Name or id of an image" example:"debian-12"`
	Flavor       string            `json:"flavor,omitempty" minLength:"1" maxLength:"255" doc:"Name or id of a flavor; required unless gpu says what is needed"`
	GPU          *GPUNeed          `json:"gpu,omitempty" doc:"What the GPU must have, instead of a flavor: the cheapest that has it is taken, and shown as the instance's flavor"`
	Kind         string            `json:"kind,omitempty" enum:"container,vm,notebook" doc:"The image's kind when absent"`
	Pool         string            `json:"pool,omitempty" maxLength:"63" doc:"Where it may run; simulated nodes get work only when their pool is named" example:"default"`
	Command      []string          `json:"command,omitempty" maxItems:"64" doc:"Replaces the image's entry point and command"`
	Env          map[string]string `json:"env,omitempty" doc:"Environment; at most 128 variables, 32 KiB in all"`
	Labels       map[string]string `json:"labels,omitempty" doc:"At most 32"`
	SSHKeys      []string          `json:"ssh_keys,omitempty" maxItems:"16" doc:"Public keys in OpenSSH's form, authorised at the first boot (VMs)"`
	UserData     string            `json:"user_data,omitempty" maxLength:"65536" doc:"For cloud-init, as it is (VMs); kept sealed and never shown again"`
	OnStop       string            `json:"on_stop,omitempty" enum:"release,hold" doc:"release when absent; hold is for VMs"`
	OnNodeLoss   string            `json:"on_node_loss,omitempty" enum:"wait,restart" doc:"wait when absent"`
	OnNodeReboot string            `json:"on_node_reboot,omitempty" enum:"restart,fail" doc:"When absent: restart for VMs and notebooks, fail for containers"`
	Wait         *bool             `json:"wait,omitempty" doc:"false: refuse with 507 instead of queueing when nothing is free now"`
}

// GPUNeed is a GPU by what it must have. What is absent is not asked for.
type GPUNeed struct {
	MemoryGiB         float64 `json:"memory_gib,omitempty" minimum:"0.1" maximum:"10000" doc:"Memory of one card or slice, nobody else's" example:"24"`
	Fraction          float64 `json:"fraction,omitempty" minimum:"0.001" maximum:"1" doc:"Part of one card" example:"0.5"`
	Model             string  `json:"model,omitempty" maxLength:"63" doc:"Key or name of a GPU model" example:"h100-80gb"`
	ComputeCapability string  `json:"compute_capability,omitempty" maxLength:"7" doc:"CUDA's, at least" example:"9.0"`
	Count             int     `json:"count,omitempty" minimum:"1" maximum:"64" doc:"Cards or slices; 1 when absent"`
}

// DryRun asks what a create would do.
type DryRun struct {
	Name         string            `json:"name,omitempty" maxLength:"63"`
	Image        string            `json:"image" minLength:"1" maxLength:"255"`
	Flavor       string            `json:"flavor,omitempty" minLength:"1" maxLength:"255"`
	GPU          *GPUNeed          `json:"gpu,omitempty"`
	Kind         string            `json:"kind,omitempty" enum:"container,vm,notebook"`
	Pool         string            `json:"pool,omitempty" maxLength:"63"`
	Command      []string          `json:"command,omitempty" maxItems:"64"`
	Env          map[string]string `json:"env,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	SSHKeys      []string          `json:"ssh_keys,omitempty" maxItems:"16"`
	UserData     string            `json:"user_data,omitempty" maxLength:"65536"`
	OnStop       string            `json:"on_stop,omitempty" enum:"release,hold"`
	OnNodeLoss   string            `json:"on_node_loss,omitempty" enum:"wait,restart"`
	OnNodeReboot string            `json:"on_node_reboot,omitempty" enum:"restart,fail"`
	Wait         *bool             `json:"wait,omitempty"`
}

// Instead is a flavor that would start now where another would wait.
type Instead struct {
	Flavor  string `json:"flavor" example:"h100-2g-20gb"`
	Why     string `json:"why" doc:"What it is beside the one that was asked for" example:"less of the same GPU"`
	FreeNow int    `json:"free_now" doc:"How many of it fit in the pool now"`
}

// DryRunResult is what a create would cost and whether it would start now.
// Nothing is kept. What a create would refuse is refused here too, with the same
// problem.
type DryRunResult struct {
	StartsNow          bool      `json:"starts_now" doc:"false: it would wait, for the reasons given"`
	PricePerHourMicros *int64    `json:"price_per_hour_micros,omitempty" doc:"Absent when a price is missing"`
	Currency           string    `json:"currency,omitempty"`
	FreeNow            int       `json:"free_now" doc:"How many of this flavor fit in the pool now"`
	Ahead              int       `json:"ahead" doc:"How many instances wait already"`
	Reasons            []Reason  `json:"reasons,omitempty" doc:"Why it would wait"`
	Instead            []Instead `json:"instead,omitempty" doc:"Flavors that would start now, the nearest to the one that would not first"`
	NeverFits          bool      `json:"never_fits" doc:"No node of the pool could take it, were it empty: it would wait for ever"`
	Flavor             string    `json:"flavor" doc:"The one that was asked for, or that meets what gpu asks for"`
	Pool               string    `json:"pool"`
	Simulated          bool      `json:"simulated" doc:"It would get simulated GPUs"`
}

// ExecTicket opens one terminal, once, within 30 seconds. Browsers need it,
// since they can't send a header with a WebSocket.
type ExecTicket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Event is one thing that happened to a resource.
type Event struct {
	ID         string         `json:"id"`
	Cursor     string         `json:"cursor,omitempty" doc:"In a project's stream: its place there, for Last-Event-ID"`
	Resource   string         `json:"resource" enum:"instance,image,project,job"`
	ResourceID string         `json:"resource_id"`
	Seq        int64          `json:"seq" doc:"Counts per resource, without holes"`
	Verb       string         `json:"verb" doc:"created, placed, running, stopped, failed…"`
	Message    string         `json:"message"`
	At         time.Time      `json:"at"`
	Data       map[string]any `json:"data,omitempty"`
}

// InstanceMetrics is what its node measured lately, oldest first.
type InstanceMetrics struct {
	IntervalSeconds int      `json:"interval_seconds"`
	Samples         []Sample `json:"samples"`
	Simulated       bool     `json:"simulated" doc:"The GPU figures are simulated"`
}

// Sample is one moment of an instance. A missing GPU figure is not known, which
// is not idle.
type Sample struct {
	At              time.Time `json:"at"`
	CPUPercent      float64   `json:"cpu_percent" doc:"Of one CPU"`
	MemoryMiB       float64   `json:"memory_mib"`
	NetRxBytes      int64     `json:"net_rx_bytes" doc:"Since it started"`
	NetTxBytes      int64     `json:"net_tx_bytes" doc:"Since it started"`
	DiskMiB         float64   `json:"disk_mib" doc:"Of the writable layer"`
	Pids            int64     `json:"pids"`
	GPUPercent      *float64  `json:"gpu_percent,omitempty"`
	GPUMemoryMiB    *float64  `json:"gpu_memory_mib,omitempty"`
	GPUPowerWatts   *float64  `json:"gpu_power_watts,omitempty"`
	GPUTemperatureC *float64  `json:"gpu_temperature_c,omitempty"`
}

// Volume is data of an instance that outlives a stop; it goes with the instance.
type Volume struct {
	ID      string `json:"id"`
	Role    string `json:"role" enum:"root,home" doc:"A VM's disk, or a notebook's home folder"`
	SizeMiB int64  `json:"size_mib"`
	UsedMiB *int64 `json:"used_mib,omitempty" doc:"As its node last measured"`
	State   string `json:"state" enum:"pending,present,deleting,deleted,lost"`
	Node    string `json:"node,omitempty" doc:"Where it lies; its instance can run only there. For operators"`
	Message string `json:"message,omitempty"`
}

// InstanceStop says what a stop does with the instance's place.
type InstanceStop struct {
	GPU string `json:"gpu,omitempty" enum:"release,hold" doc:"The instance's own on_stop when absent; hold is for VMs. A stopped one that is held is released with release"`
}

// InstanceStart says how to start.
type InstanceStart struct {
	WithoutGPU bool `json:"without_gpu,omitempty" doc:"Start without its GPUs and without their price, to save its data; the next plain start asks for them again (VMs and notebooks)"`
}

// InstanceRestart is empty: a restart has nothing to say.
type InstanceRestart struct{}

// InstanceUpdate changes what is given; a flavor only while stopped and not held.
type InstanceUpdate struct {
	Flavor       *string `json:"flavor,omitempty" maxLength:"255" doc:"Name or id; its disk may not be smaller"`
	OnStop       *string `json:"on_stop,omitempty" enum:"release,hold"`
	OnNodeLoss   *string `json:"on_node_loss,omitempty" enum:"wait,restart"`
	OnNodeReboot *string `json:"on_node_reboot,omitempty" enum:"restart,fail"`
}

// Opened is the address of a web server inside an instance, on a host of its
// own. The link signs its first visitor in, once, soon.
type Opened struct {
	URL       string    `json:"url" doc:"Good for one visit, within 30 seconds"`
	Host      string    `json:"host" doc:"Where it stays open, for whoever may use the instance"`
	ExpiresAt time.Time `json:"expires_at"`
}

// TicketCreate says what a ticket opens.
type TicketCreate struct {
	For  string `json:"for,omitempty" enum:"exec,console,screen,port" default:"exec"`
	Port int    `json:"port,omitempty" minimum:"1" maximum:"65535" doc:"With for=port"`
}
