// Package queue decides what of all that waits starts now, what runs on, and what
// gives way: by tier, share, urgency, priority and age, whole gangs or nothing.
//
//	waiting, running, reservations ──Decide──► Plan: Start, Preempt, Cut, Reserve
//	                                        └► Waiting: a reason, a position and a
//	                                           start for each that waits
//
// One Decide takes the tiers in turn. In each it goes down the tree of those who
// share (package fairshare), at every level to the one that is owed most, and
// tries what its leaf has first. What finds no place may take that of others, if
// it has the right to; else it may get a start in the future, and only what ends
// before that, or doesn't lie there, starts before it.
//
// Where things lie is a Fleet's business: the cards of a cloud, the nodes of a
// simulation, or a bare Pool of quota. Work of the same kind stands in one line; a
// line whose first finds no place isn't tried again until more may fit than
// before, so that a Decide costs what can change and not what waits.
//
// RULES.md says how each rule of Slurm, KAI and Kueue is answered. Pure: equal
// input gives an equal plan, in whatever order it came. Imports: the standard
// library and internal/fairshare.
package queue
