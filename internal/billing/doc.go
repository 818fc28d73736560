// Package billing turns what happened to instances into what it costs.
//
//	events ──Meter──► segments + corrections ──Intervals──► usage ──Bill──► lines
//	                                             prices ──────────────┘
//
// A segment is a half-open stretch [from, to) in which an instance had one shape
// and was charged for it. It is closed once and never changes; news that comes
// late moves its end by a correction of signed seconds. Times are exact, money is
// integer micro-units of the currency; quantities and costs are summed as exact
// fractions and rounded once, at the end, half to even.
//
// Pure. Imports: the standard library, internal/cloud and internal/gpu.
package billing
