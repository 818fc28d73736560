// Package fairshare is the tree of those who share a cloud (organisation,
// project, user: any depth) and its arithmetic: who may take how much, who has
// more than is theirs, and who must give back to whom.
//
// Each node has a guarantee, which is part of its parent's; a limit, which it
// never passes; and a weight, by which it shares with its siblings what nobody
// has of right. What a node has above its guarantee is borrowed. One number
// compares siblings, its share: the dominant part of the cloud that it borrows,
// by weight. Where usage counts (K9), the weight is corrected by what the node
// had lately.
//
//	Node, Capacity ──New──► Tree ──► Room, Fits   what may start (Q1)
//	                             ──► Divide       what each should have (K1, K2)
//	                             ──► Share, Claim who gives back to whom (K4, K5, Q4, Q5)
//	                             ──► Usage, Weigh what each had lately (S4, S6, K9, Q6)
//	                             ──► FairTree     who is behind most (S5)
//
// Kueue and KAI agree on this but for what follows; the letters are those of
// internal/queue/RULES.md. Kueue's nominal quota is the guarantee, its borrowing
// limit is limit less guarantee, its cohort an inner node. A KAI queue's deserved
// quota is the guarantee too, and its fair share is what Divide says. Who gives
// back is settled by Kueue's shares and not by KAI's fair share: they need no
// guess of demand, and the largest share under any one parent falls with every
// claim, so that no sequence of claims comes back to where it began.
//
// Amounts are whole numbers and never drift; only shares are fractions. Pure.
// Imports: the standard library.
package fairshare
