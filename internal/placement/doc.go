// Package placement is the engine: it turns what the nodes have free and what
// waits into a plan, with the reasons for every refusal. The plan depends on
// its input alone: no context, clock, randomness or I/O, and no order of nodes,
// cards or requests changes it.
//
//	Snapshot + []Request + Policy ──Decide──► Plan
//
// The first engine is best fit. Requests are taken by priority, then in the
// order in which they were queued; each goes to the node where it leaves least
// behind: a slice to the fullest card that takes it, at the start that breaks
// the fewest larger ones; whole cards to NVLink neighbours on one NUMA node,
// without breaking a fresh pair; those of a VM on a board with NVSwitches are exactly
// one partition, that which breaks the fewest larger free ones; work without a GPU away from free GPUs.
//
// Imports: the standard library, internal/cloud and internal/gpu.
package placement
