package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Enrolment is what a node needs to get its identity.
type Enrolment struct {
	StateDir  string
	DoorURL   string // https://host:port
	JoinToken string // one use; needed the first time only
	Name      string
	// The door is believed only with one of these: the CA's certificate, or the
	// SHA-256 of it in hex ("sha256:…"), both given out with the join token.
	CA            []byte // PEM
	CAFingerprint string
	Host          Host
	Log           *slog.Logger
}

// statusError is the door's refusal.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the door answered %d %s: %s", e.code, http.StatusText(e.code), e.body)
}

// Enrol returns the node's identity, from its state folder or, the first time,
// for its join token. It tries again while the door can't be reached.
func Enrol(ctx context.Context, e Enrolment) (*Identity, error) {
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	id, err := loadIdentity(e.StateDir)
	if err != nil {
		return nil, err
	}
	if id != nil {
		pair, err := id.keyPair()
		if err != nil {
			return nil, err
		}
		if time.Now().Before(pair.Leaf.NotAfter) {
			return id, nil
		}
		if e.JoinToken == "" {
			return nil, fmt.Errorf("enrol: this node's certificate ended on %s; make a join token for it and start it with that", pair.Leaf.NotAfter.Format(time.RFC3339))
		}
	}
	if e.JoinToken == "" {
		return nil, errors.New("enrol: this node has no identity yet: a join token is needed")
	}
	cfg, err := e.tlsConfig()
	if err != nil {
		return nil, err
	}
	key, err := e.pendingKey()
	if err != nil {
		return nil, err
	}
	csr, err := newCSR(key, e.Name)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}, Timeout: 15 * time.Second}
	defer client.CloseIdleConnections()
	req := nodewire.EnrollRequest{JoinToken: e.JoinToken, Name: e.Name, CSR: csr, VCPU: e.Host.VCPU, MemoryMiB: e.Host.MemoryMiB}
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		var resp nodewire.EnrollResponse
		err := postJSON(ctx, client, e.DoorURL+nodewire.PathEnroll, req, &resp)
		if err == nil {
			if id, err = newIdentity(key, resp); err != nil {
				return nil, fmt.Errorf("enrol: %w", err)
			}
			if err := id.save(e.StateDir); err != nil {
				return nil, fmt.Errorf("enrol: %w", err)
			}
			_ = os.Remove(e.pendingPath())
			return id, nil
		}
		var refused *statusError
		if errors.As(err, &refused) && refused.code >= 400 && refused.code < 500 && refused.code != http.StatusTooManyRequests {
			return nil, fmt.Errorf("enrol: %w", err)
		}
		var unverified *tls.CertificateVerificationError
		if errors.As(err, &unverified) || errors.Is(err, errFingerprint) {
			return nil, fmt.Errorf("enrol: the door at %s is not the one that the join token is for: %w", e.DoorURL, err)
		}
		e.Log.Warn("enrol", "door", e.DoorURL, "error", err, "retry_in", wait)
		if !sleep(ctx, wait) {
			return nil, fmt.Errorf("enrol: %w (%w)", ctx.Err(), err)
		}
	}
}

func (e Enrolment) pendingPath() string { return filepath.Join(e.StateDir, "enrolling.pem") }

// pendingKey is kept until the certificate is: a crash between the two asks
// again with the same key, which the control plane can recognise.
func (e Enrolment) pendingKey() ([]byte, error) {
	key, err := os.ReadFile(e.pendingPath())
	if err == nil {
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	if key, err = newKey(); err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	if err := writeDurably(e.pendingPath(), key); err != nil {
		return nil, fmt.Errorf("enrol: save key: %w", err)
	}
	return key, nil
}

var errFingerprint = errors.New("its CA has another fingerprint")

// tlsConfig believes the door by its CA, or by the CA's fingerprint.
func (e Enrolment) tlsConfig() (*tls.Config, error) {
	if len(e.CA) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(e.CA) {
			return nil, errors.New("enrol: the CA file holds no certificate")
		}
		return &tls.Config{RootCAs: pool}, nil
	}
	want, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(e.CAFingerprint), "sha256:"), ":", ""))
	if err != nil || len(want) != sha256.Size {
		return nil, errors.New("enrol: the door can't be verified: give the CA file, or the CA's fingerprint as sha256:<64 hex digits>")
	}
	door, err := url.Parse(e.DoorURL)
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	return &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, from the pinned CA
		VerifyConnection: func(cs tls.ConnectionState) error {
			for _, c := range cs.PeerCertificates {
				if sum := sha256.Sum256(c.Raw); !bytes.Equal(sum[:], want) {
					continue
				}
				roots, between := x509.NewCertPool(), x509.NewCertPool()
				roots.AddCert(c)
				for _, o := range cs.PeerCertificates[1:] {
					between.AddCert(o)
				}
				_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: door.Hostname()})
				return err
			}
			return errFingerprint
		},
	}, nil
}

// postJSON sends a request and reads the answer of a 2xx.
func postJSON(ctx context.Context, client *http.Client, target string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return &statusError{resp.StatusCode, strings.TrimSpace(string(body))}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}
