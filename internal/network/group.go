package network

import (
	"context"
	"fmt"
	"strings"
)

// pair is a way from one guest to another of its group.
type pair struct{ From, To Attachment }

// pairs are all the ways that are open between guests.
func (n *Network) pairs() (out []pair) {
	for _, a := range n.pinned {
		for _, b := range n.pinned {
			if a.Group != "" && a.Group == b.Group && a.ID != b.ID {
				out = append(out, pair{a, b})
			}
		}
	}
	return out
}

// pairsOf are those of one guest, both ways.
func (n *Network) pairsOf(a Attachment) (out []pair) {
	for _, b := range n.pinned {
		if a.Group != "" && a.Group == b.Group && a.ID != b.ID {
			out = append(out, pair{a, b}, pair{b, a})
		}
	}
	return out
}

// leaveGroup closes the ways between a guest and its group.
func (n *Network) leaveGroup(ctx context.Context, a Attachment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pairs := n.pairsOf(a)
	if kept, ok := n.pinned[a.ID]; ok {
		kept.Group = ""
		n.pinned[a.ID] = kept
	}
	for _, p := range pairs { // each alone: one may be gone already
		_ = nft(ctx, n.pairRules("delete", []pair{p}))
	}
}

func (n *Network) pairRules(verb string, pairs []pair) string {
	var rules strings.Builder
	for _, p := range pairs {
		fmt.Fprintf(&rules, "%[1]s element bridge %[2]s peers { \"%[3]s\" . \"%[4]s\" }\n%[1]s element inet %[2]s peers { %[5]s . %[6]s }\n",
			verb, n.tableName(), p.From.Port, p.To.Port, p.From.Address, p.To.Address)
	}
	return rules.String()
}
