package cloud

import (
	"strconv"
	"time"
)

// JobState is where a job is on its way to an end.
//
//	queued ─► starting ─► running ─► succeeded, failed, cancelled ─► deleted
//	   ▲          │          │
//	   └──────────┴──────────┘ an attempt is over and another is allowed
type JobState string

const (
	JobQueued    JobState = "queued"   // its members wait for a place
	JobStarting  JobState = "starting" // placed, and not all of them run yet
	JobRunning   JobState = "running"
	JobSucceeded JobState = "succeeded" // every member exited with 0
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
	JobDeleted   JobState = "deleted"
)

// JobStates lists every state, in the order a reader expects.
var JobStates = []JobState{JobQueued, JobStarting, JobRunning, JobSucceeded, JobFailed, JobCancelled, JobDeleted}

// Over reports that nothing of a job runs or will.
func (s JobState) Over() bool {
	switch s {
	case JobSucceeded, JobFailed, JobCancelled, JobDeleted:
		return true
	}
	return false
}

// JobDesired is the tenant's intent.
type JobDesired string

const (
	JobWanted          JobDesired = "running"
	JobWantedCancelled JobDesired = "cancelled"
	JobWantedDeleted   JobDesired = "deleted"
)

// Priority is a class of jobs in the queue.
type Priority string

const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)

// Rank is what the placement engine sorts by: higher first.
func (p Priority) Rank() int {
	switch p {
	case PriorityHigh:
		return 100
	case PriorityLow:
		return -100
	}
	return 0
}

// Tier says what kind of waiting a job's user does.
type Tier string

const (
	TierInteractive Tier = "interactive"
	TierBatch       Tier = "batch"
)

// How an attempt of a job was ended, or is being ended.
const (
	JobSuccess  = "succeeded"
	JobFailure  = "failed"      // a member ended with an error of its own
	JobPlatform = "platform"    // a member was lost, not by its own doing: no retry is used
	JobCancel   = "cancelled"   // as asked
	JobTimedOut = "max_runtime" // it ran for as long as it may
)

// MasterPort is where rank 0 of a gang is expected to listen.
const MasterPort = 29500

// Job owns instances that run to an exit code.
type Job struct {
	ID          JobID
	OrgID       OrgID
	ProjectID   ProjectID
	ProjectName string
	Name        string
	ImageID     ImageID
	ImageName   string
	FlavorID    FlavorID
	FlavorName  string
	PoolName    string
	Simulated   bool // its pool is
	Command     []string
	Env         map[string]string
	Labels      map[string]string

	MembersMin      int // of a gang, placed whole: as many as fit, from MembersMin to MembersMax
	MembersMax      int
	ArrayTasks      int // tasks that know nothing of each other; 0: a gang
	ArrayParallel   int // at most so many of them at once
	AcrossNodes     bool
	Priority        Priority
	Tier            Tier
	Spot            bool
	ExpectedSeconds *int
	MaxSeconds      *int
	Retries         int

	Desired     JobDesired
	Generation  int64
	State       JobState
	StateAt     time.Time
	Reason      string
	Message     string
	Attempt     int
	Size        int // members of the present or last attempt; 0: not placed yet
	RetriesUsed int
	PlacedAt    *time.Time
	StartedAt   *time.Time // when the first member of the present attempt ran
	FinishedAt  *time.Time
	DeletedAt   *time.Time
	CreatedBy   UserID
	CreatedAt   time.Time
}

// Instances is how many instances it owns.
func (j Job) Instances() int { return max(j.ArrayTasks, j.MembersMax) }

// Rendezvous reports a gang whose members find each other by name.
func (j Job) Rendezvous() bool { return j.ArrayTasks == 0 && j.MembersMax > 1 && !j.AcrossNodes }

// MemberName is the name of a job's member, which is its host name too.
func MemberName(job string, rank int) string { return job + "-" + strconv.Itoa(rank) }

// JobMemberEnd is how a member ended in an attempt that is over.
type JobMemberEnd struct {
	Rank      int           `json:"rank"`
	State     InstanceState `json:"state"`
	Reason    string        `json:"reason,omitempty"`
	Message   string        `json:"message,omitempty"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	Epoch     int64         `json:"epoch,omitempty"`
	StartedAt *time.Time    `json:"started_at,omitempty"`
	EndedAt   *time.Time    `json:"ended_at,omitempty"`
}

// JobAttempt is an attempt that is over: of a gang, or of one task of an array.
type JobAttempt struct {
	Number    int
	Rank      *int // of a task; nil: the whole gang
	PlacedAt  *time.Time
	StartedAt *time.Time
	EndedAt   time.Time
	Outcome   string
	Message   string
	Members   []JobMemberEnd
}
