package api

import "time"

// States of a job.
const (
	JobQueued    = "queued"
	JobStarting  = "starting"
	JobRunning   = "running"
	JobSucceeded = "succeeded"
	JobFailed    = "failed"
	JobCancelled = "cancelled"
	JobDeleted   = "deleted"
)

// Job owns instances, its members, that run to an exit code: a gang that starts
// whole or not at all, or an array of tasks that know nothing of each other.
type Job struct {
	ID        string `json:"id" example:"job_01k3zq8h2mfw4v8y0c6d9r2t5x"`
	Name      string `json:"name" example:"train-1"`
	Project   string `json:"project"`
	ProjectID string `json:"project_id"`
	Image     string `json:"image"`
	Flavor    string `json:"flavor" doc:"Of each member"`
	Pool      string `json:"pool"`
	Shape
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	MembersMin      int    `json:"members_min" doc:"Of a gang: fewer are never started"`
	MembersMax      int    `json:"members_max" doc:"As many as fit, up to this"`
	ArrayTasks      int    `json:"array_tasks,omitempty" doc:"Of an array; absent for a gang"`
	ArrayParallel   int    `json:"array_parallel,omitempty" doc:"At most so many of them at once"`
	AcrossNodes     bool   `json:"across_nodes" doc:"The members may lie on several nodes, whose networks are not joined"`
	Priority        string `json:"priority" enum:"low,normal,high"`
	ExpectedSeconds *int   `json:"expected_seconds,omitempty" doc:"As its owner said"`
	MaxSeconds      *int   `json:"max_seconds,omitempty" doc:"It is ended after this time of running"`
	Retries         int    `json:"retries" doc:"How often a member's failure starts all of them again; of an array, a task's failure that task"`

	DesiredState string      `json:"desired_state" enum:"running,cancelled,deleted"`
	State        string      `json:"state" enum:"queued,starting,running,succeeded,failed,cancelled,deleted"`
	Generation   int64       `json:"generation" doc:"Of what is wanted; the ETag"`
	Reason       string      `json:"reason,omitempty" doc:"For programs: member_failed, tasks_failed, max_runtime, platform, quota"`
	Message      string      `json:"message,omitempty" doc:"For a person: what it waits for, how far it is, or why it ended"`
	Reasons      []Reason    `json:"reasons,omitempty" doc:"While queued: why each place was refused, with counts"`
	QueuePlace   int         `json:"queue_place,omitempty" doc:"While queued, of one: the place of its first member in its pool's queue, from 1"`
	Attempt      int         `json:"attempt" doc:"Of a gang, from 1"`
	Size         int         `json:"size" doc:"Members of the present or last attempt; 0: not placed yet"`
	RetriesUsed  int         `json:"retries_used"`
	Counts       JobCounts   `json:"counts"`
	Members      []JobMember `json:"members,omitempty" doc:"Of one job, by rank"`
	Attempts     []JobTry    `json:"attempts,omitempty" doc:"Of one job: those that are over, newest first, at most 50"`
	Simulated    bool        `json:"simulated"`

	PricePerHourMicros *int64     `json:"price_per_hour_micros,omitempty" doc:"Of what runs now"`
	MemberPriceMicros  *int64     `json:"member_price_per_hour_micros,omitempty" doc:"Of one member while it runs; a job costs what its members do, by the second"`
	Currency           string     `json:"currency,omitempty"`
	CreatedBy          string     `json:"created_by"`
	CreatedAt          time.Time  `json:"created_at"`
	StateAt            time.Time  `json:"state_at"`
	PlacedAt           *time.Time `json:"placed_at,omitempty" doc:"Of the present attempt"`
	StartedAt          *time.Time `json:"started_at,omitempty" doc:"When the first member of the present attempt ran"`
	FinishedAt         *time.Time `json:"finished_at,omitempty"`
	DeletedAt          *time.Time `json:"deleted_at,omitempty"`
}

// JobCounts is a job's members by where they are.
type JobCounts struct {
	Waiting   int `json:"waiting"`
	Active    int `json:"active" doc:"On a node"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
}

// JobMember is an instance of a job, in short.
type JobMember struct {
	Rank       int        `json:"rank" doc:"Of an array: the task's index"`
	InstanceID string     `json:"instance_id"`
	Instance   string     `json:"instance" doc:"Its name, and its host name inside"`
	State      string     `json:"state" enum:"queued,starting,running,stopping,stopped,failed,deleting,deleted"`
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	ExitCode   *int       `json:"exit_code,omitempty"`
	Node       string     `json:"node,omitempty" doc:"For operators"`
	Address    string     `json:"address,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	StateAt    time.Time  `json:"state_at"`
}

// JobTry is an attempt that is over: of a whole gang, or of one task of an array.
type JobTry struct {
	Number    int            `json:"number"`
	Rank      *int           `json:"rank,omitempty" doc:"Of a task; absent: the whole gang"`
	Outcome   string         `json:"outcome" enum:"succeeded,failed,platform,cancelled,max_runtime" doc:"platform: a member was lost, not by its own doing, and no retry was used"`
	Message   string         `json:"message"`
	PlacedAt  *time.Time     `json:"placed_at,omitempty"`
	StartedAt *time.Time     `json:"started_at,omitempty"`
	EndedAt   time.Time      `json:"ended_at"`
	Members   []JobMemberEnd `json:"members"`
}

// JobMemberEnd is how a member ended in an attempt.
type JobMemberEnd struct {
	Rank     int    `json:"rank"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
}

// JobCreate asks for a job.
type JobCreate struct {
	Name            string            `json:"name" minLength:"1" maxLength:"60" pattern:"^[a-z]([a-z0-9-]{0,58}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen" example:"train-1"`
	Image           string            `json:"image" minLength:"1" maxLength:"255" doc:"Name or id of a container image" example:"debian-12"`
	Flavor          string            `json:"flavor" minLength:"1" maxLength:"255" doc:"Name or id, of each member"`
	Pool            string            `json:"pool,omitempty" maxLength:"63" doc:"Where it may run" example:"default"`
	Command         []string          `json:"command,omitempty" maxItems:"64" doc:"Replaces the image's entry point and command"`
	Env             map[string]string `json:"env,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Members         *int              `json:"members,omitempty" doc:"A gang of this size, started whole or not at all; 1 when absent. At most 64 on one node, 256 across nodes"`
	MembersMin      *int              `json:"members_min,omitempty" doc:"Fewer will do, down to this; members when absent"`
	Array           *int              `json:"array,omitempty" doc:"So many tasks that know nothing of each other, instead of a gang: each gets TENON_ARRAY_INDEX, from 0. At most 1000"`
	Parallel        *int              `json:"parallel,omitempty" doc:"Of an array: at most so many at once; all when absent"`
	AcrossNodes     bool              `json:"across_nodes,omitempty" doc:"Members may lie on several nodes. Their networks are not joined: they get ranks, and no MASTER_ADDR"`
	Priority        string            `json:"priority,omitempty" enum:"low,normal,high" doc:"normal when absent"`
	ExpectedSeconds *int              `json:"expected_seconds,omitempty" doc:"How long it will run, as far as you know"`
	MaxSeconds      *int              `json:"max_seconds,omitempty" doc:"End it after this time of running: it has failed then, with reason max_runtime"`
	Retries         int               `json:"retries,omitempty" minimum:"0" maximum:"100" doc:"How often a member's failure starts the whole gang again; of an array, a task's failure that task"`
}
