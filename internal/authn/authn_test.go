package authn

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

type memoryStore struct{ keys []SealedKey }

func (s *memoryStore) CloudID(context.Context) (string, error) { return "7e57c10d", nil }
func (s *memoryStore) SealedKeyList(context.Context) ([]SealedKey, error) {
	return slices.Clone(s.keys), nil
}
func (s *memoryStore) SealedKeyAdd(_ context.Context, k SealedKey) error {
	s.keys = append(s.keys, k)
	return nil
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func testKeys(t *testing.T) *Keys {
	t.Helper()
	k, err := KeysLoad(t.Context(), MasterNew(), &memoryStore{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func codeOf(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestMasterKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	a, err := MasterLoad(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := MasterLoad(path)
	if err != nil || !bytes.Equal(a.key, b.key) {
		t.Fatalf("the second start has another key (%v)", err)
	}
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o600 || info.Size() != 32 {
		t.Errorf("mode %v, %d bytes; want 0600 and 32", info.Mode(), info.Size())
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := MasterLoad(path); err == nil {
		t.Error("a key that others can read is taken")
	}
	if a.RolePassword("x") == a.RolePassword("y") {
		t.Error("two roles have one password")
	}
}

func TestSealedSecretsAreBoundToPurposeAndName(t *testing.T) {
	t.Parallel()
	m := MasterNew()
	sealed, err := m.Seal("jwt", "jwt-1", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Unseal("jwt", "jwt-1", sealed); err != nil || string(got) != "secret" {
		t.Fatalf("%q, %v", got, err)
	}
	damaged := slices.Clone(sealed)
	damaged[len(damaged)-1] ^= 1
	for what, err := range map[string]error{
		"another name":    second(m.Unseal("jwt", "jwt-2", sealed)),
		"another purpose": second(m.Unseal("node_ca", "jwt-1", sealed)),
		"another master":  second(MasterNew().Unseal("jwt", "jwt-1", sealed)),
		"damaged":         second(m.Unseal("jwt", "jwt-1", damaged)),
		"cut":             second(m.Unseal("jwt", "jwt-1", sealed[:5])),
	} {
		if err == nil {
			t.Errorf("%s: opened", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestKeysOutliveTheProcess(t *testing.T) {
	t.Parallel()
	m, store := MasterNew(), &memoryStore{}
	a, err := KeysLoad(t.Context(), m, store, noon)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := a.AccessIssue(cloud.UserID{1}, cloud.SessionID{2}, noon)
	if err != nil {
		t.Fatal(err)
	}
	b, err := KeysLoad(t.Context(), m, store, noon)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.AccessRead(token, noon); err != nil || got.UserID != (cloud.UserID{1}) || got.SessionID != (cloud.SessionID{2}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := KeysLoad(t.Context(), MasterNew(), store, noon); err == nil {
		t.Error("keys open under another master key")
	}
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	good, until, err := k.AccessIssue(cloud.UserID{1}, cloud.SessionID{2}, noon)
	if err != nil || until.Sub(noon) != 10*time.Minute {
		t.Fatalf("until %v, %v", until, err)
	}
	claims := accessClaims{RegisteredClaims: jwt.RegisteredClaims{Subject: cloud.UserID{1}.String(), Audience: jwt.ClaimStrings{accessAudience},
		ExpiresAt: jwt.NewNumericDate(noon.Add(time.Minute))}, Session: cloud.SessionID{2}.String()}
	sign := func(method jwt.SigningMethod, key any, kid string) string {
		tok := jwt.NewWithClaims(method, claims)
		tok.Header["kid"] = kid
		s, err := tok.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	_, foreign, _ := ed25519.GenerateKey(rand.Reader)
	own := k.jwt[0]
	for what, c := range map[string]struct {
		token, code string
		at          time.Time
	}{
		"good":               {good, "", noon.Add(9 * time.Minute)},
		"expired":            {good, "token_expired", noon.Add(11 * time.Minute)},
		"cut":                {good[:len(good)-2], "token_malformed", noon},
		"not a token":        {"hello", "token_malformed", noon},
		"empty":              {"", "token_malformed", noon},
		"another's key":      {sign(jwt.SigningMethodEdDSA, foreign, own.id), "token_malformed", noon},
		"unknown key id":     {sign(jwt.SigningMethodEdDSA, own.private, "other"), "token_malformed", noon},
		"no algorithm":       {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, own.id), "token_malformed", noon},
		"public key as HMAC": {sign(jwt.SigningMethodHS256, []byte(own.private.Public().(ed25519.PublicKey)), own.id), "token_malformed", noon},
	} {
		if _, err := k.AccessRead(c.token, c.at); codeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want code %q", what, err, c.code)
		}
	}
}

func TestSecretsAreRecognisable(t *testing.T) {
	t.Parallel()
	s := SecretNew(PrefixAPI)
	if len(s) != len("tenon_")+46 || SecretCheck(PrefixAPI, s) != nil || SecretNew(PrefixAPI) == s {
		t.Fatalf("bad secret %q", s)
	}
	other := byte('a')
	if s[10] == 'a' {
		other = 'b'
	}
	for _, bad := range []string{"", "tenon_", s[:len(s)-1], s + "0", s[:10] + string(other) + s[11:], "xenon_" + s[6:], SecretNew(PrefixJoin), s[:20] + " " + s[21:]} {
		if err := SecretCheck(PrefixAPI, bad); codeOf(err) != "token_malformed" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if hint := SecretHint(PrefixAPI, s); strings.Contains(hint, s[6:12]) || !strings.HasSuffix(hint, s[len(s)-4:]) {
		t.Errorf("hint %q", hint)
	}
}

func TestRefreshRotation(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	old := SecretNew(PrefixRefresh)
	next := k.RefreshNext(old)
	if next == old || next != k.RefreshNext(old) || SecretCheck(PrefixRefresh, next) != nil || testKeys(t).RefreshNext(old) == next {
		t.Fatal("the successor must be the same each time, well-formed, and unknown without our key")
	}
	s := Session{RefreshHash: SecretHash(next), PreviousHash: SecretHash(old), RotatedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	revoked := s
	revoked.RevokedAt = &noon
	for what, c := range map[string]struct {
		s     Session
		token string
		at    time.Duration
		want  Verdict
	}{
		"present":            {s, next, 40 * time.Second, VerdictRotate},
		"within the grace":   {s, old, 30 * time.Second, VerdictRepeat},
		"after the grace":    {s, old, 31 * time.Second, VerdictStolen},
		"expired":            {s, next, time.Hour, VerdictOver},
		"revoked":            {revoked, next, 0, VerdictOver},
		"revoked, old token": {revoked, old, 0, VerdictOver},
		"of another session": {s, SecretNew(PrefixRefresh), 0, VerdictOver},
	} {
		if got := RefreshJudge(c.s, c.token, noon.Add(c.at)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	p := NewPasswords()
	kept, err := p.Hash(t.Context(), "correct horse battery")
	if err != nil || !strings.HasPrefix(kept, "$argon2id$v=19$") {
		t.Fatalf("%q, %v", kept, err)
	}
	for _, c := range []struct {
		kept, try string
		want      bool
	}{
		{kept, "correct horse battery", true},
		{kept, "correct horse batterz", false},
		{kept, "", false},
		{"", "correct horse battery", false},
		{"", "of nobody's", false},
		{kept, strings.Repeat("x", 1<<20), false},
	} {
		if ok, err := p.Check(t.Context(), c.kept, c.try); ok != c.want || err != nil {
			t.Errorf("check of %.20q: %v, %v", c.try, ok, err)
		}
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 12), strings.Repeat("xy", 400)} {
		if PasswordProblem(bad) == "" {
			t.Errorf("%.10q… is taken", bad)
		}
	}
	if why := PasswordProblem("correct horse battery"); why != "" {
		t.Error(why)
	}
}

func BenchmarkPasswordCheck(b *testing.B) {
	p := NewPasswords()
	kept, _ := p.Hash(b.Context(), "correct horse battery")
	for b.Loop() {
		_, _ = p.Check(b.Context(), kept, "correct horse battery")
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	now := noon
	th := NewThrottle(func() time.Time { return now })
	for i := range throttleFree {
		if err := th.Allow("a@b", "::1"); err != nil {
			t.Fatalf("try %d: %v", i+1, err)
		}
	}
	if err := th.Allow("a@b", "::1"); cloud.KindOf(err) != cloud.KindRateLimited {
		t.Fatalf("the sixth try at once: %v", err)
	}
	if err := th.Allow("a@b", "::2"); err != nil {
		t.Errorf("another address waits too: %v", err)
	}
	now = now.Add(time.Second)
	if err := th.Allow("a@b", "::1"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	now = now.Add(1900 * time.Millisecond)
	if err := th.Allow("a@b", "::1"); err == nil {
		t.Error("the second wait is no longer than the first")
	}
	th.Succeeded("a@b", "::1")
	if err := th.Allow("a@b", "::1"); err != nil {
		t.Errorf("after a success: %v", err)
	}
}

func TestNodeCertificates(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	// The request claims to be another node; what it claims is not looked at.
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"evil"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	id := cloud.NodeID{9}
	got, err := k.NodeSign(csr, id, noon)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(got.PEM))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(k *Keys, at time.Time) error {
		_, err := cert.Verify(x509.VerifyOptions{Roots: k.CAPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	if err := verify(k, noon.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if verify(k, got.NotAfter.Add(time.Second)) == nil || verify(testKeys(t), noon) == nil {
		t.Error("the certificate is good too long, or under another cloud's CA")
	}
	if node, err := k.NodeOf(cert); err != nil || node != id || len(cert.DNSNames) != 0 || cert.IsCA {
		t.Errorf("node %v (%v), names %v", node, err, cert.DNSNames)
	}
	door, err := k.DoorCertificate([]string{"127.0.0.1", "localhost"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(door.Certificate[0])
	if _, err := k.NodeOf(leaf); err == nil {
		t.Error("the door's certificate passes as a node's")
	}
	for _, bad := range []string{"", "x", got.PEM, strings.Replace(csr, "M", "N", 1)} {
		if _, err := k.NodeSign(bad, id, noon); cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("request %.20q: %v", bad, err)
		}
	}
}
