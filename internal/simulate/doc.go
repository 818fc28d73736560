// Package simulate replays traces through the packing core, beside the policies
// that it is compared with: what is placed, how full the cluster gets and how
// long a decision takes. It needs no cloud.
//
// Imports: the standard library, internal/packing and internal/gpu.
package simulate
