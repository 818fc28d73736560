package queue

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// story is a small cloud of one resource, in which a class is its size.
type story struct {
	*testing.T
	q     *Queue
	tree  *fairshare.Tree
	pool  *Pool
	now   time.Duration
	names []string
}

// tell begins a story. Nodes name their parents by their own names: "acme/vision"
// is a child of "acme".
func tell(t *testing.T, capacity int64, policy Policy, nodes ...fairshare.Node) *story {
	t.Helper()
	s := &story{T: t, names: []string{"cloud"}}
	all := []fairshare.Node{{Name: "cloud", Parent: fairshare.None}}
	for _, n := range nodes {
		if i := strings.LastIndexByte(n.Name, '/'); i > 0 {
			n.Parent = slices.Index(s.names, n.Name[:i])
		}
		if n.Weight == 0 {
			n.Weight = 1
		}
		all, s.names = append(all, n), append(s.names, n.Name)
	}
	var err error
	if s.tree, err = fairshare.New(all, []int64{capacity}); err != nil {
		t.Fatal(err)
	}
	classes := make([][]int64, capacity+2)
	for i := range classes {
		classes[i] = []int64{int64(i)}
	}
	s.pool = NewPool([]int64{capacity}, classes)
	if s.q, err = New(s.tree, s.pool, policy); err != nil {
		t.Fatal(err)
	}
	return s
}

func share(name string, guaranteed int64) fairshare.Node {
	return fairshare.Node{Name: name, Guaranteed: []int64{guaranteed}}
}

// add lets work of a size come to a queue, preemptible unless a change says so.
func (s *story) add(id, queue string, size int, change ...func(*Workload)) {
	s.Helper()
	w := Workload{ID: id, Queue: slices.Index(s.names, queue), Class: size, Resources: []int64{int64(size)}, QueuedAt: s.now, Preemptible: true}
	for _, c := range change {
		c(&w)
	}
	if err := s.q.Add(w); err != nil {
		s.Fatal(err)
	}
}

func prio(p int) func(*Workload)            { return func(w *Workload) { w.Priority = p } }
func tier(n int) func(*Workload)            { return func(w *Workload) { w.Tier = n } }
func lasts(d time.Duration) func(*Workload) { return func(w *Workload) { w.Expected = d } }
func members(least, most int) func(*Workload) {
	return func(w *Workload) { w.Min, w.Max = least, most }
}
func since(at time.Duration) func(*Workload) { return func(w *Workload) { w.QueuedAt = at } }
func firm(w *Workload)                       { w.Preemptible = false }
func spot(w *Workload)                       { w.Spot = true }
func minRuntime(d time.Duration) func(*Workload) {
	return func(w *Workload) { w.MinRuntime = d }
}
func grace(d time.Duration) func(*Workload) { return func(w *Workload) { w.Grace = d } }
func deadline(class int) func(*Workload)    { return func(w *Workload) { w.Deadline = class } }
func inside(reservation string) func(*Workload) {
	return func(w *Workload) { w.Reservation = reservation }
}

// decide decides, and sees that deciding again changes nothing.
func (s *story) decide() Plan {
	s.Helper()
	p := s.q.Decide(s.now)
	if again := s.q.Decide(s.now); len(again.Start)+len(again.Preempt)+len(again.Cut) > 0 {
		s.Fatalf("a second Decide goes on: %+v", again)
	}
	return p
}

// wants says what a plan has to be: "a b" starts a and b in this order, "-c" ends c
// for another.
func (s *story) wants(p Plan, want string) {
	s.Helper()
	var got []string
	for _, v := range p.Preempt {
		got = append(got, "-"+v.ID)
	}
	slices.Sort(got)
	for _, st := range p.Start {
		got = append(got, st.ID)
	}
	if all := strings.Join(got, " "); all != want {
		s.Errorf("at %s the plan is %q, not %q", s.now, all, want)
	}
}

// goes decides and says what it has to be.
func (s *story) goes(want string) Plan {
	s.Helper()
	p := s.decide()
	s.wants(p, want)
	return p
}

func (s *story) end(ids ...string) {
	for _, id := range ids {
		s.q.Remove(id, s.now)
	}
}

func (s *story) later(d time.Duration) { s.now += d }

// waits is what is said of one that waits.
func (s *story) waits(id string) Wait {
	s.Helper()
	for _, w := range s.q.Waiting(s.now) {
		if w.ID == id {
			return w
		}
	}
	s.Fatalf("%s doesn't wait", id)
	return Wait{}
}

func (s *story) says(id, want string) {
	s.Helper()
	words := Words{
		Resource: func(int) string { return "GPUs" },
		Amount:   func(_ int, a int64) string { return strconv.FormatInt(a, 10) },
		At:       func(at time.Duration) string { return at.String() },
	}
	if got := s.waits(id).Reason.Say(s.tree, words); got != want {
		s.Errorf("%s: %q, not %q", id, got, want)
	}
}
