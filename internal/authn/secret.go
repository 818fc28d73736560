package authn

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Prefixes tell a person, and a scanner for leaked secrets, what they have.
const (
	PrefixAPI     = "tenon_"
	PrefixJoin    = "tenonjoin_"
	PrefixRefresh = "tenonses_"
)

const (
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretChars = 40 // 238 bits
	checkChars  = 6
)

// SecretNew makes a secret: prefix, 40 random characters and a check by which a
// mistyped one is told from an unknown one without a look-up.
func SecretNew(prefix string) string { return secretFrom(prefix, rand.Reader) }

// secretFrom spells the bytes of a source as a secret.
func secretFrom(prefix string, source io.Reader) string {
	body := make([]byte, 0, secretChars)
	var buf [64]byte
	for len(body) < secretChars {
		if _, err := io.ReadFull(source, buf[:]); err != nil {
			panic(err) // neither source ends
		}
		for _, b := range buf {
			if b < 248 && len(body) < secretChars { // 4 × 62: no character is likelier
				body = append(body, base62[b%62])
			}
		}
	}
	return prefix + string(body) + check(prefix+string(body))
}

func check(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	out := make([]byte, checkChars)
	for i := range out {
		out[checkChars-1-i] = base62[sum%62]
		sum /= 62
	}
	return string(out)
}

// SecretCheck tells whether a text can be a secret of that kind at all.
func SecretCheck(prefix, s string) error {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != secretChars+checkChars || strings.Trim(rest, base62) != "" || check(s[:len(s)-checkChars]) != s[len(s)-checkChars:] {
		return cloud.E(cloud.KindUnauthenticated, "token_malformed", "the token is malformed: a character is missing or mistyped").
			WithHint("copy it again in full: it begins with %s and has %d characters", prefix, len(prefix)+secretChars+checkChars)
	}
	return nil
}

// SecretHash is what is kept of a secret. The secret has 238 random bits, so a
// plain hash is enough.
func SecretHash(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// SecretHint is what a person may recognise a secret by.
func SecretHint(prefix, s string) string { return prefix + "…" + s[len(s)-4:] }
