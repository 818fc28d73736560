package app

import (
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Call is who asks, and how. Every use-case for people takes one.
type Call struct {
	Actor          cloud.Actor
	Address        string // where the request came from, for the audit
	IdempotencyKey string // empty: none given
}

// Page asks for a part of a list.
type Page struct {
	Limit int    // 0: 50; at most 200
	Token string // NextPageToken of the page before; empty: the first
}

// List is one page.
type List[T any] struct {
	Items         []T
	NextPageToken string // empty: no more
}
