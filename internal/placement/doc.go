// Package placement is the engine: it turns what the nodes have free and what
// waits into a plan, with the reasons for every refusal. The plan depends on
// its input alone: no context, clock, randomness or I/O, and no order of nodes,
// cards or requests changes it.
//
//	Snapshot + Policy ──NewBoard──► Board ──Decide(requests)──► Plan
//	                     changed nodes ──Set──┘  └──Place, Release, Mark, Rollback, Block
//
// Requests are taken by priority, then in the order in which they were queued.
// Hard rules say where each could lie; topology comes next (whole cards go to
// NVLink neighbours on one NUMA node, without breaking a fresh pair; those of a VM
// on a board with NVSwitches are exactly one partition, that which breaks the fewest
// larger free ones; work without a GPU stays off nodes that have some); and of what
// is left, package packing finds the place that leaves most room for what will be
// asked for: by the card for whole ones and parts of any size, by the layout for
// MIG slices. Equal parts go to the fullest card.
//
// A board lives on: what a kind of request scores on a node is kept until that node
// changes. A board that was changed decides as one made anew would.
//
// Imports: the standard library, internal/cloud, internal/gpu, and the
// packages internal/packing and internal/queue (whose Fleet a board is).
package placement
