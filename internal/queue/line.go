package queue

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// job is a workload that the queue knows.
type job struct {
	Workload
	least, most int // members
	line        *line
	state       state
	members     int
	started     time.Duration
	booking     Booking
	ending      time.Duration
	forWhom     string
	ranAs       level  // what it had to say when it was started
	decided     uint64 // the Decide in which it was started; see Queue.decides
	lost        bool   // LostAt means something
	cancels     int    // how often its start was taken back in that Decide
	cancelled   uint64
	reserved    uint64 // the Decide in which a start was reserved for it
	reservedAt  time.Duration
}

type state uint8

const (
	waiting state = iota
	promised
	running
	ending
)

// counts is how the job counts in the tree: by its members, or by the fewest.
func (j *job) holds() int {
	if j.state == running || j.state == ending {
		return j.members
	}
	return j.least
}

// before is the order in which those of one line, or equal lines, go.
func before(a, b *job) int {
	return cmp.Or(cmp.Compare(a.QueuedAt, b.QueuedAt), cmp.Compare(a.ID, b.ID))
}

// kind is what makes two workloads of one queue equal but for their age. Their
// runs last about as long, to a factor of two: where the first of a line would
// delay somebody, the others aren't tried.
type kind struct {
	class, least, most       int
	tier, priority, deadline int
	preemptible, spot        bool
	lasts                    int // doublings of a nanosecond
	reservation              string
	resources                string
}

func (j *job) kind() kind {
	k := kind{class: j.Class, least: j.least, most: j.most, tier: j.Tier, priority: j.Priority, deadline: j.Deadline, preemptible: j.Preemptible, spot: j.Spot,
		lasts: bits.Len64(uint64(j.runtime())), reservation: j.Reservation}
	b := make([]byte, 0, 64)
	for _, a := range j.Resources {
		for ; a >= 0x80; a >>= 7 {
			b = append(b, byte(a)|0x80)
		}
		b = append(b, byte(a))
	}
	k.resources = string(b)
	return k
}

// line is all that waits of one kind in one queue, the oldest first.
type line struct {
	kind
	leaf  int
	jobs  []*job
	never *fairshare.Shortage // not nil: it can't fit, by the tree
	skip  int                 // so many have a start reserved in this Decide
	why   Reason              // of the last refusal
	dead  uint64              // the Decide in which nothing of it starts any more
}

func (l *line) first() *job {
	if l.skip < len(l.jobs) {
		return l.jobs[l.skip]
	}
	return nil
}

func (l *line) add(j *job) {
	i, _ := slices.BinarySearchFunc(l.jobs, j, before)
	l.jobs = slices.Insert(l.jobs, i, j)
	j.line, j.state = l, waiting
}

func (l *line) remove(j *job) {
	if len(l.jobs) > 0 && l.jobs[0] == j {
		l.jobs[0] = nil
		l.jobs = l.jobs[1:]
		return
	}
	if i, found := slices.BinarySearchFunc(l.jobs, j, before); found {
		l.jobs = slices.Delete(l.jobs, i, i+1)
	}
}

// level is what a line's first has to say for itself beside the others of its
// queue.
type level struct {
	urgent   bool
	due      time.Duration
	priority float64
}

func (q *Queue) level(j *job, now time.Duration) level {
	l := level{priority: float64(j.Priority)}
	if p := &q.policy; p.Aging > 0 {
		age := max(0, now-j.QueuedAt)
		if p.AgeAtMost > 0 {
			age = min(age, p.AgeAtMost)
		}
		l.priority += float64(age) / float64(p.Aging)
	}
	if j.Deadline > 0 && j.Deadline <= len(q.policy.Deadlines) {
		l.due = j.QueuedAt + q.policy.Deadlines[j.Deadline-1]
		l.urgent = now >= l.due-q.policy.Urgent
	}
	return l
}

// earlier is the order inside a queue: what is urgent by its deadline, then by
// aged priority, then by age.
func (q *Queue) earlier(a, b *job, now time.Duration) bool {
	x, y := q.level(a, now), q.level(b, now)
	if x.urgent != y.urgent {
		return x.urgent
	}
	if x.urgent && x.due != y.due {
		return x.due < y.due
	}
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	return before(a, b) < 0
}
