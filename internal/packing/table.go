package packing

import (
	"math"
	"math/bits"
)

// Key is how well a class would lie on a node: more is better, 0 is no place.
type Key uint64

// KeyOf puts a score behind what matters more; of that, less is better.
func KeyOf(before uint32, score float32) Key {
	b := math.Float32bits(score)
	switch {
	case score == 0: // either zero
		b = 1 << 31
	case b>>31 != 0:
		b = ^b
	default:
		b |= 1 << 31
	}
	return Key(^before)<<32 | Key(b)
}

const blockBits = 6 // 64 nodes make a block, whose best is known

// Table keeps what each class of requests scores on each node, until that node
// changes. The first among equals wins, so the order of the nodes decides.
type Table struct {
	score   func(class, node int) (Key, int8)
	version []uint32 // of each node
	changed []int32  // a ring: the nodes that changed last
	changes int      // so many changes in all
	weights int      // grows when what the scores rest on changes
	rows    []row
}

type cell struct {
	key     Key
	version uint32 // of the node that it was made for
	card    int8
}

// row is one class on all nodes.
type row struct {
	weights int // -1: never made
	changes int // so many were looked at
	cells   []cell
	best    []int32 // of each block; -1: no place
	dirty   []uint64
}

// NewTable asks score for what is not known. card is whatever the scorer wants
// to be told again.
func NewTable(nodes int, score func(class, node int) (key Key, card int8)) *Table {
	t := &Table{score: score, version: make([]uint32, nodes), changed: make([]int32, nodes)}
	for i := range t.version {
		t.version[i] = 1
	}
	return t
}

// Add makes room for one class more and gives its number.
func (t *Table) Add() int {
	t.rows = append(t.rows, row{weights: -1})
	return len(t.rows) - 1
}

// Touch says that a node changed.
func (t *Table) Touch(node int) {
	t.version[node]++
	t.changed[t.changes%len(t.changed)] = int32(node)
	t.changes++
}

// Version grows with each change of a node.
func (t *Table) Version(node int) uint32 { return t.version[node] }

// Forget says that nothing is known any more.
func (t *Table) Forget() { t.weights++ }

// Best is the node on which the class scores best; -1: none.
func (t *Table) Best(class int) (node, card int) {
	r := t.refresh(class)
	best, key := -1, Key(0)
	for _, b := range r.best {
		if b >= 0 && r.cells[b].key > key {
			best, key = int(b), r.cells[b].key
		}
	}
	if best < 0 {
		return -1, -1
	}
	return best, int(r.cells[best].card)
}

// Refresh looks at the nodes that changed, so that Key is true.
func (t *Table) Refresh(class int) { t.refresh(class) }

// Key is how well the class lies on a node; 0: it has no place there.
func (t *Table) Key(class, node int) Key { return t.rows[class].cells[node].key }

// refresh looks at the nodes that changed since the row was last asked.
func (t *Table) refresh(class int) *row {
	r, n := &t.rows[class], len(t.version)
	switch {
	case r.weights != t.weights:
		if r.weights < 0 {
			blocks := (n + 1<<blockBits - 1) >> blockBits
			r.cells, r.best, r.dirty = make([]cell, n), make([]int32, blocks), make([]uint64, (blocks+63)/64)
		}
		r.weights = t.weights
		for i := range t.version {
			t.fill(r, class, i)
		}
	case t.changes-r.changes >= n:
		for i := range t.version {
			if r.cells[i].version != t.version[i] {
				t.fill(r, class, i)
			}
		}
	default:
		for k := r.changes; k < t.changes; k++ {
			if i := t.changed[k%n]; r.cells[i].version != t.version[i] {
				t.fill(r, class, int(i))
			}
		}
	}
	r.changes = t.changes
	for w := range r.dirty {
		for ; r.dirty[w] != 0; r.dirty[w] &= r.dirty[w] - 1 {
			r.settle(w<<6 + bits.TrailingZeros64(r.dirty[w]))
		}
	}
	return r
}

func (t *Table) fill(r *row, class, i int) {
	key, card := t.score(class, i)
	r.cells[i] = cell{key, t.version[i], card}
	block := i >> blockBits
	r.dirty[block>>6] |= 1 << (block & 63)
}

// settle finds the best of a block again.
func (r *row) settle(block int) {
	from := block << blockBits
	best, key := int32(-1), Key(0)
	for i := from; i < min(from+1<<blockBits, len(r.cells)); i++ {
		if k := r.cells[i].key; k > key {
			best, key = int32(i), k
		}
	}
	r.best[block] = best
}
