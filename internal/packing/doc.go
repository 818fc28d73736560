// Package packing is the core of placement: which node, and which card of it, a
// request goes to, so that as much as possible of what will be asked for still
// fits. Nodes are few bytes each; what a kind of request would score on a node is
// kept until that node changes, so that every node is scored exactly, at every
// decision, at hundreds of thousands of decisions a second.
//
//	Mix of requests ──► Fit (scores a place) ──► Table (best of all nodes)
//	                └─► Prices (what a MIG slice costs on a card as it is cut)
//
// Package placement places a cloud's instances by Table, Fit and Prices. Engine
// and Slices are the same without a cloud around them: the first for policies that
// are compared with Tenon's, the second for moves of slices.
//
// What is best depends on the mix: a place costs the room that it takes from the
// requests that come, by how often they come; what it leaves unused on the node;
// and the scarcity of its model. The first among equals wins, so that equal input
// gives equal places on any machine.
//
// Pure. Imports: the standard library and internal/gpu.
package packing
