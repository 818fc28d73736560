package queue

import "time"

// Workload is something that waits for a place, or has one.
type Workload struct {
	ID        string
	Queue     int     // a leaf of the tree
	Class     int     // what the fleet places, opaque here
	Resources []int64 // of each member, as the tree counts them

	Min, Max int // members; 0: 1, or as Min. A gang starts with Min at least

	Tier     int // of Policy.Tiers; lower goes first
	Priority int // within its queue; higher goes first
	Deadline int // of Policy.Deadlines, counted from 1; 0: none

	// QueuedAt is since when it could start: dependencies don't age it. What was
	// preempted keeps it.
	QueuedAt time.Duration

	Expected, Maximum time.Duration // of a run; 0: unknown

	Preemptible bool
	Spot        bool          // uses what is idle, outside of every share, and goes first
	MinRuntime  time.Duration // before it can be preempted
	Grace       time.Duration // between the word and the end

	Reservation string // whose capacity it uses
	Restarts    int    // how often it was preempted
	// LostAt is when it was last preempted, or passed over (Plan.Passed); 0: never.
	LostAt time.Duration
}

// runtime is how long a run is thought to last; 0: nobody knows.
func (w *Workload) runtime() time.Duration {
	if w.Expected > 0 {
		return w.Expected
	}
	return w.Maximum
}

// Running is a workload in its place.
type Running struct {
	Workload
	Members   int
	StartedAt time.Duration
	Booking   Booking
	// Ending: it was told to make room by then; For is who gets it.
	Ending time.Duration
	For    string
}

// Reservation keeps capacity for a time, for workloads that name it.
type Reservation struct {
	ID      string
	Class   int
	Members int
	From    time.Duration
	Until   time.Duration
}

// Tier goes before all later ones.
type Tier struct {
	Name string
	// Reserve is kept from later tiers, but for spot work, which goes at once.
	Reserve []int64
	// Longest run that the tier takes; 0: any.
	Longest time.Duration
}

// Policy is what an operator chooses. The zero value is a good one: one tier, best
// effort, everybody's share equal to the others', no backfill without reservations.
type Policy struct {
	Tiers     []Tier
	Deadlines []time.Duration // the wait that each deadline class is promised
	// Urgent is so long before its deadline that work goes before all priorities.
	Urgent time.Duration

	// Aging is the wait that outweighs one step of priority; 0: none does. It ends
	// at AgeAtMost; 0: never.
	Aging, AgeAtMost time.Duration

	Strict bool // what finds no place holds back what is behind it in its queue

	// Reservations is for how many of those that wait a start is reserved; 0: none,
	// and then small work may pass a large gang for ever.
	Reservations int
	// Patience is after what wait one whose start can't be told, since others run
	// for nobody knows how long, gets what comes free all the same; 0: never.
	Patience time.Duration

	NoPreemption bool // nobody gives way, not even spot work
	// Calm is for how long what was preempted claims nobody's place in turn, but by
	// right of a guarantee; 0: five minutes; negative: not at all.
	Calm time.Duration
	// Margin is how much lower one's share must stay than that of whom it takes
	// from; below 1: 1.
	Margin float64
	// FirmWithinGuarantee: what isn't preemptible starts only within guarantees.
	FirmWithinGuarantee bool

	// ByUsage orders siblings by what they had lately, not by what they have.
	ByUsage bool
	// Ahead is for how long a start is charged ahead of its usage.
	Ahead time.Duration
	// Strength corrects weights by usage since Since; 0: not at all.
	Strength float64
	Since    time.Duration
}

// Start is a workload that starts now.
type Start struct {
	ID      string
	Members int
	Booking Booking
	// After names those that made room for it.
	After []string
}

// Preempt is a workload that makes room and goes back to the queue.
type Preempt struct {
	ID    string
	For   string
	Why   Cause
	Until time.Duration // it has until then
}

// Cut is a gang that goes on with fewer members.
type Cut struct {
	ID      string
	For     string
	Why     Cause
	Members int
}

// Cause is the right by which one makes room for another.
type Cause string

const (
	CauseSpot     Cause = "spot"     // spot work makes room for any other
	CausePriority Cause = "priority" // more urgent work of its own queue
	CauseReclaim  Cause = "reclaim"  // it was borrowed, and is wanted by whose it is
	CauseShare    Cause = "share"    // its queue had more than its share
)

// Reserve is a start in the future that nothing behind it delays.
type Reserve struct {
	ID string
	At time.Duration // 0: as soon as enough is free, which nobody can tell
}

// Short is a reservation that its capacity is missing for.
type Short struct {
	Reservation string
	Members     int
}

// Plan is what to do now. It is done as far as the Queue is concerned: what could
// not be done is told to it. What makes room at once is ended before anything
// starts; what both makes room and starts is moved.
type Plan struct {
	Start   []Start
	Preempt []Preempt
	Cut     []Cut
	Reserve []Reserve
	Short   []Short
	Passed  []string // could have started, but others could have claimed that place
}
