package authn

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// argon2id at 32 MiB and two passes takes about 50 ms of one core.
const (
	argonMemoryKiB = 32 << 10
	argonPasses    = 2
	argonBytes     = 32
	saltBytes      = 16
)

// PasswordMinimum is the shortest password that is taken; the longest keeps the
// work of hashing bounded.
const (
	PasswordMinimum = 10
	passwordMaximum = 512
)

// Passwords hashes and checks, a few at a time: sign-ins must not be able to
// take the machine's memory or all of its cores.
type Passwords struct {
	slots chan struct{}
	dummy string
}

// NewPasswords makes a hasher for this machine.
func NewPasswords() *Passwords {
	p := &Passwords{slots: make(chan struct{}, max(1, runtime.NumCPU()/2))}
	p.dummy = hash("of nobody's", make([]byte, saltBytes))
	return p
}

// PasswordProblem says in words why a password can't be taken; empty is good.
func PasswordProblem(password string) string {
	switch n := utf8.RuneCountInString(password); {
	case n < PasswordMinimum:
		return fmt.Sprintf("too short: at least %d characters", PasswordMinimum)
	case len(password) > passwordMaximum:
		return fmt.Sprintf("too long: at most %d bytes", passwordMaximum)
	case strings.Count(password, password[:1]) == len(password):
		return "one character over and over"
	}
	return ""
}

// Hash makes what is kept of a password.
func (p *Passwords) Hash(ctx context.Context, password string) (string, error) {
	if err := p.enter(ctx); err != nil {
		return "", err
	}
	defer p.leave()
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt)
	return hash(password, salt), nil
}

// Check compares a password with what was kept. With nothing kept (an unknown
// e-mail) it does the same work, so that the time tells nothing.
func (p *Passwords) Check(ctx context.Context, kept, password string) (bool, error) {
	if err := p.enter(ctx); err != nil {
		return false, err
	}
	defer p.leave()
	known := kept != ""
	if !known {
		kept = p.dummy
	}
	if len(password) > passwordMaximum {
		password, known = "", false
	}
	var memory, passes uint32
	var lanes uint8
	parts := strings.Split(kept, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, fmt.Errorf("read a password hash: unknown form")
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &lanes); err != nil {
		return false, fmt.Errorf("read a password hash: %w", err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("read a password hash's salt: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return false, fmt.Errorf("read a password hash: %w", err)
	}
	got := argon2.IDKey([]byte(password), salt, passes, memory, lanes, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

func hash(password string, salt []byte) string {
	sum := argon2.IDKey([]byte(password), salt, argonPasses, argonMemoryKiB, 1, argonBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemoryKiB, argonPasses, 1,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

func (p *Passwords) enter(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to check a password: %w", context.Cause(ctx))
	}
}

func (p *Passwords) leave() { <-p.slots }
