package placement

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// kindOfAsk tells requests apart that could be decided differently.
type kindOfAsk struct {
	pool  string
	kind  cloud.InstanceKind
	shape cloud.Shape
	home  cloud.NodeID
	org   cloud.OrgID // zero where it doesn't matter
}

// row remembers, for one kind of ask, what each node of its pool offered, until
// that node changes.
type row struct {
	want  *want
	nodes []int
	cells []cell
	// Within one plan what is free only shrinks, so what found no place once
	// finds none later, and neither do more members at a time.
	refused map[int]*Refusal // by number of members
}

type cell struct {
	version uint32
	ok      bool
	score   score
}

type engine struct {
	board   *board
	policy  Policy
	rows    map[kindOfAsk]*row
	waiting map[string]int // by pool: how many wait
	blocked map[string]int // by pool: how many wait that could fit one day
	picks   []pick
}

// Decide makes the plan. The input is not changed.
func Decide(s Snapshot, requests []Request, policy Policy) Plan {
	e := &engine{board: newBoard(s), policy: policy, rows: map[kindOfAsk]*row{}, waiting: map[string]int{}, blocked: map[string]int{}}
	queue := make([]*Request, len(requests))
	for i := range requests {
		queue[i] = &requests[i]
	}
	slices.SortStableFunc(queue, func(a, b *Request) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Order, b.Order), bytes.Compare(a.InstanceID[:], b.InstanceID[:]))
	})
	seen := make(map[cloud.InstanceID]bool, len(queue))
	plan := Plan{Decisions: make([]Decision, 0, len(queue))}
	for _, r := range queue {
		if seen[r.InstanceID] {
			continue
		}
		seen[r.InstanceID] = true
		plan.Decisions = append(plan.Decisions, e.decide(r))
	}
	return plan
}

func (e *engine) decide(r *Request) Decision {
	d := Decision{InstanceID: r.InstanceID}
	row := e.row(r)
	members := max(r.Count, 1)
	var refusal Refusal
	switch known, ok := row.refused[members]; {
	case e.policy.Discipline == Strict && e.blocked[r.Pool] > 0 && !e.neverFits(row, members):
		refusal = Refusal{Reasons: []Reason{{Code: Behind, Count: e.blocked[r.Pool]}}}
	case ok:
		refusal = *known
	default:
		if d.Members = e.place(row, members); d.Members != nil {
			return d
		}
		refusal = e.refuse(row, members)
		row.refused[members] = &refusal
	}
	e.waiting[r.Pool]++
	if !refusal.NeverFits {
		e.blocked[r.Pool]++
	}
	refusal.Position = e.waiting[r.Pool]
	d.Refusal = &refusal
	return d
}

func (e *engine) row(r *Request) *row {
	key := kindOfAsk{pool: r.Pool, kind: r.Kind, shape: r.Shape, home: r.Home}
	if r.Shape.GPUMode == cloud.ModeShared {
		key.org = r.Org
	}
	key.shape.DiskMiB = 0 // not placed by
	got, ok := e.rows[key]
	if !ok {
		nodes := e.board.pools[r.Pool]
		got = &row{want: newWant(e.board, r), nodes: nodes, cells: make([]cell, len(nodes)), refused: map[int]*Refusal{}}
		e.rows[key] = got
	}
	return got
}

// place books a place for every member, or for none and returns nil.
func (e *engine) place(r *row, members int) []Assignment {
	if r.want.bad != "" {
		return nil
	}
	out := make([]Assignment, 0, members)
	var undo []func()
	for range members {
		i := e.best(r)
		if i < 0 {
			for k := len(undo) - 1; k >= 0; k-- {
				undo[k]()
			}
			return nil
		}
		n := &e.board.nodes[r.nodes[i]]
		_, picks, _ := n.fit(r.want, e.picks)
		out = append(out, n.assignment(r.want, picks))
		undo = append(undo, n.take(r.want, picks))
		e.picks = picks
	}
	return out
}

// best is the index in the row of the node with the lowest score; -1: none.
func (e *engine) best(r *row) int {
	best := -1
	for i := range r.cells {
		c := &r.cells[i]
		if n := &e.board.nodes[r.nodes[i]]; c.version != n.version {
			c.version = n.version
			c.score, e.picks, c.ok = n.fit(r.want, e.picks)
		}
		if c.ok && (best < 0 || c.score.less(r.cells[best].score)) {
			best = i
		}
	}
	return best
}
