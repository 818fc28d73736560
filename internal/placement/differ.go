package placement

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// IDs are the nodes on the board, in order.
func (b *Board) IDs() []cloud.NodeID {
	out := make([]cloud.NodeID, len(b.nodes))
	for i := range b.nodes {
		out[i] = b.nodes[i].src.ID
	}
	return out
}

// Differs reports whether the board has a node otherwise than it is told now.
func (b *Board) Differs(n Node) bool {
	i, ok := b.at[n.ID]
	return !ok || !reflect.DeepEqual(plain(b.nodes[i].now()), plain(n))
}

// plain is a node in one of the ways in which it could be told.
func plain(n Node) Node {
	n.GPUs = slices.Clone(n.GPUs)
	slices.SortFunc(n.GPUs, func(a, b GPU) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for i := range n.GPUs {
		g := &n.GPUs[i]
		g.Slices = append([]gpu.Place{}, g.Slices...)
		slices.SortFunc(g.Slices, func(a, b gpu.Place) int { return cmp.Compare(a.Start, b.Start) })
		g.NVLink, g.Bundle = append([]string{}, g.NVLink...), append([]string{}, g.Bundle...)
	}
	n.Kinds, n.Partitions = append([]string{}, n.Kinds...), append([]cloud.Partition{}, n.Partitions...)
	return n
}
