package authn

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	// SessionFor is how long a session lives without a refresh.
	SessionFor = 14 * 24 * time.Hour
	// ReuseGrace is how long a rotated refresh token still gives its successor,
	// for answers that were lost and tabs that refresh at the same moment.
	ReuseGrace = 30 * time.Second
)

// Session is what is kept of one, as far as refreshing it goes.
type Session struct {
	ID           cloud.SessionID
	UserID       cloud.UserID
	RefreshHash  []byte
	PreviousHash []byte
	RotatedAt    time.Time
	ExpiresAt    time.Time
	RevokedAt    *time.Time
}

// Verdict is what to do about a refresh token.
type Verdict string

const (
	VerdictRotate Verdict = "rotate" // the present one: give its successor
	VerdictRepeat Verdict = "repeat" // rotated a moment ago: give the same successor again
	VerdictStolen Verdict = "stolen" // rotated earlier: somebody else has it, so the session ends
	VerdictOver   Verdict = "over"   // unknown, expired or revoked
)

// RefreshJudge decides about a token that was found to belong to a session.
func RefreshJudge(s Session, token string, now time.Time) Verdict {
	h := SecretHash(token)
	switch {
	case s.RevokedAt != nil || !now.Before(s.ExpiresAt):
		return VerdictOver
	case bytes.Equal(h, s.RefreshHash):
		return VerdictRotate
	case !bytes.Equal(h, s.PreviousHash):
		return VerdictOver
	case now.Sub(s.RotatedAt) <= ReuseGrace:
		return VerdictRepeat
	}
	return VerdictStolen
}

// RefreshNext is the token that follows one. It follows from the old one and our
// key alone, so that asking twice within the grace gives the same answer though
// only hashes are kept.
func (k *Keys) RefreshNext(token string) string {
	return secretFrom(PrefixRefresh, &stream{key: k.refresh, seed: []byte(token)})
}

// stream is an endless pseudo-random reader: HMAC in counter mode.
type stream struct {
	key, seed []byte
	count     uint64
	rest      []byte
}

func (s *stream) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) == 0 {
			h := hmac.New(sha256.New, s.key)
			_ = binary.Write(h, binary.BigEndian, s.count)
			h.Write(s.seed)
			s.rest = h.Sum(nil)
			s.count++
		}
		c := copy(p[n:], s.rest)
		s.rest = s.rest[c:]
		n += c
	}
	return n, nil
}

var _ io.Reader = (*stream)(nil)
