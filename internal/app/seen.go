package app

import (
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	// seenFor bounds for how long another process's revocation goes unnoticed;
	// this one's own are noticed at once.
	seenFor     = time.Second
	seenEntries = 10_000
)

// seen remembers for a moment who a credential belongs to, so that a burst of
// requests is one look-up. It keeps hashes, never a credential.
type seen struct {
	mu sync.Mutex
	of map[string]seenEntry
}

type seenEntry struct {
	who   cloud.Actor
	until time.Time
}

func seenKey(credential, org string) string { return string(authn.SecretHash(credential)) + org }

func (s *seen) get(credential, org string, now time.Time) (cloud.Actor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.of[seenKey(credential, org)]
	return e.who, ok && now.Before(e.until)
}

func (s *seen) put(credential, org string, who cloud.Actor, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= seenEntries {
		s.of = map[string]seenEntry{}
	}
	s.of[seenKey(credential, org)] = seenEntry{who, until}
}

// forget drops everything: something was revoked or changed.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.of)
}
