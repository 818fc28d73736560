package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// testDoor is a control plane's door with real TLS and a CA of its own.
type testDoor struct {
	url     string
	caPEM   []byte
	caSum   string
	pool    tunnel.Pool
	ca      *x509.Certificate
	key     *ecdsa.PrivateKey
	life    time.Duration // of the certificates that it gives out
	mu      sync.Mutex
	tokens  map[string]string // token → public key that used it
	reports []nodewire.Report
	renewed int
}

func newTestDoor(t *testing.T) *testDoor {
	t.Helper()
	d := &testDoor{life: time.Hour, tokens: map[string]string{"tenonjoin_good": ""}}
	d.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test ca"}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &d.key.PublicKey, d.key)
	if err != nil {
		t.Fatal(err)
	}
	d.ca, _ = x509.ParseCertificate(der)
	d.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	sum := sha256.Sum256(der)
	d.caSum = "sha256:" + hex.EncodeToString(sum[:])

	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leaf := d.sign(t, &key.PublicKey, "door", time.Hour)
	clients := x509.NewCertPool()
	clients.AddCert(d.ca)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf, der}, PrivateKey: key}},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: clients,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.url = "https://" + ln.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+nodewire.PathEnroll, d.enroll)
	mux.HandleFunc("POST "+nodewire.PathRenew, d.renew)
	mux.HandleFunc("POST "+nodewire.PathReports, func(w http.ResponseWriter, r *http.Request) {
		var rep nodewire.Report
		if len(r.TLS.VerifiedChains) == 0 || json.NewDecoder(r.Body).Decode(&rep) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		d.mu.Lock()
		d.reports = append(d.reports, rep)
		d.mu.Unlock()
		answer(w, http.StatusOK, nodewire.ReportAnswer{Sequence: rep.Sequence, NextSeconds: 1})
	})
	mux.HandleFunc("GET "+nodewire.PathConnect, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.VerifiedChains) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if conn, err := tunnel.Accept(w, r, nodewire.UpgradeReverse); err == nil {
			_ = d.pool.Add(r.TLS.PeerCertificates[0].Subject.CommonName, conn)
		}
	})
	srv := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return d
}

func (d *testDoor) sign(t testing.TB, pub any, name string, life time.Duration) []byte {
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now(), NotAfter: time.Now().Add(life), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, d.ca, pub, d.key)
	if err != nil && t != nil {
		t.Fatal(err)
	}
	return der
}

func (d *testDoor) certify(csrPEM string) (nodewire.EnrollResponse, string) {
	block, _ := pem.Decode([]byte(csrPEM))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nodewire.EnrollResponse{}, ""
	}
	pub, _ := x509.MarshalPKIXPublicKey(csr.PublicKey)
	der := d.sign(nil, csr.PublicKey, "node_1", d.life)
	return nodewire.EnrollResponse{
		NodeID: "node_1", CloudID: "c1", CA: string(d.caPEM), NotAfter: time.Now().Add(d.life),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, string(pub)
}

func (d *testDoor) enroll(w http.ResponseWriter, r *http.Request) {
	var req nodewire.EnrollRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	resp, pub := d.certify(req.CSR)
	d.mu.Lock()
	defer d.mu.Unlock()
	used, known := d.tokens[req.JoinToken]
	if !known || used != "" && used != pub {
		http.Error(w, "this join token is unknown or used", http.StatusUnauthorized)
		return
	}
	d.tokens[req.JoinToken] = pub
	answer(w, http.StatusOK, resp)
}

func (d *testDoor) renew(w http.ResponseWriter, r *http.Request) {
	var req nodewire.RenewRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	d.mu.Lock()
	d.renewed++
	d.life = time.Hour
	d.mu.Unlock()
	resp, _ := d.certify(req.CSR)
	answer(w, http.StatusOK, resp)
}

func (d *testDoor) enrolment(dir string) Enrolment {
	return Enrolment{StateDir: dir, DoorURL: d.url, JoinToken: "tenonjoin_good", Name: "n1", CAFingerprint: d.caSum}
}

func wireCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestEnrolment(t *testing.T) {
	t.Parallel()
	d := newTestDoor(t)
	dir := t.TempDir()
	ctx := wireCtx(t)

	wrong := d.enrolment(dir)
	wrong.CAFingerprint = "sha256:" + strings.Repeat("ab", 32)
	if _, err := Enrol(ctx, wrong); err == nil || !strings.Contains(err.Error(), "not the one that the join token is for") {
		t.Errorf("a door with another CA: %v", err)
	}
	impostor := newTestDoor(t)
	wrong = d.enrolment(dir)
	wrong.CAFingerprint, wrong.CA = "", impostor.caPEM
	if _, err := Enrol(ctx, wrong); err == nil || !strings.Contains(err.Error(), "not the one that the join token is for") {
		t.Errorf("a door with another CA by file: %v", err)
	}
	wrong.CA = nil
	if _, err := Enrol(ctx, wrong); err == nil || !strings.Contains(err.Error(), "can't be verified") {
		t.Errorf("no way to verify the door: %v", err)
	}
	wrong = d.enrolment(dir)
	wrong.JoinToken = "tenonjoin_bad"
	if _, err := Enrol(ctx, wrong); err == nil || !strings.Contains(err.Error(), "unknown or used") {
		t.Errorf("a bad token: %v", err)
	}
	if d.tokens["tenonjoin_good"] != "" {
		t.Fatal("the token was spent on a refused attempt")
	}

	id, err := Enrol(ctx, d.enrolment(dir))
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(identityPath(dir))
	if err != nil || st.Mode().Perm() != 0o600 || id.NodeID != "node_1" {
		t.Errorf("identity %+v, mode %v, %v", id, st.Mode(), err)
	}
	// A crash before the identity was written: the same key asks again.
	dir2 := t.TempDir()
	e := d.enrolment(dir2)
	e.JoinToken = "tenonjoin_second"
	d.tokens["tenonjoin_second"] = ""
	if _, err := Enrol(ctx, e); err != nil {
		t.Fatal(err)
	}
	// With an identity no token is needed, and none is used.
	again := d.enrolment(dir)
	again.JoinToken, again.DoorURL = "", "https://127.0.0.1:1"
	if id2, err := Enrol(ctx, again); err != nil || id2.Key != id.Key {
		t.Errorf("second start: %v", err)
	}
	if err := os.WriteFile(identityPath(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Enrol(ctx, d.enrolment(dir)); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged identity: %v", err)
	}
}

func TestCrashWhileEnrolling(t *testing.T) {
	t.Parallel()
	d := newTestDoor(t)
	dir := t.TempDir()
	e := d.enrolment(dir)
	key, err := e.pendingKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := newCSR(key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	_, pub := d.certify(csr)
	d.tokens["tenonjoin_good"] = pub // the door took the token; the answer was lost
	if _, err := Enrol(wireCtx(t), e); err != nil {
		t.Fatalf("the same key can't ask again: %v", err)
	}
	if _, err := os.Stat(e.pendingPath()); !os.IsNotExist(err) {
		t.Error("the pending key is still there")
	}
}

// connected is an agent behind a real door, with one running instance.
func connected(t *testing.T) (*testDoor, *fake.Engine, *RemoteDoor) {
	t.Helper()
	d := newTestDoor(t)
	dir := t.TempDir()
	id, err := Enrol(wireCtx(t), d.enrolment(dir))
	if err != nil {
		t.Fatal(err)
	}
	return startConnected(t, d, dir, id)
}

func startConnected(t *testing.T, d *testDoor, dir string, id *Identity) (*testDoor, *fake.Engine, *RemoteDoor) {
	t.Helper()
	remote, err := NewDoor(id, d.url, "n1", dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine := fake.New(fake.Options{})
	a, err := New(Config{
		NodeID: id.NodeID, CloudID: id.CloudID, Door: remote, Store: FileStore(filepath.Join(dir, "ledger.json")),
		Drivers: []hypervisor.Driver{engine}, Host: Host{VCPU: 2, MemoryMiB: 512, BootID: "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "the node is connected", func() bool { return d.pool.Has("node_1") })

	raw, _ := json.Marshal(assignment("e", 1, container("inst_1", 1)))
	req, _ := http.NewRequestWithContext(wireCtx(t), http.MethodPut, "http://node"+nodewire.PathAssignment, strings.NewReader(string(raw)))
	resp, err := d.pool.Transport("node_1").RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("PUT assignment: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	eventually(t, "it is reported running", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.reports) == 0 {
			return false
		}
		r := d.reports[len(d.reports)-1]
		return len(r.Instances) == 1 && r.Instances[0].State == nodewire.GuestRunning
	})
	return d, engine, remote
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func dialExec(t *testing.T, d *testDoor, id string, req nodewire.ExecRequest) (net.Conn, error) {
	t.Helper()
	ctx := wireCtx(t)
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/instances/"+id+"/exec", nil)
	raw, _ := json.Marshal(req)
	r.Header.Set("Tenon-Exec", base64.StdEncoding.EncodeToString(raw))
	conn, err := d.pool.Upgrade(ctx, "node_1", r, nodewire.UpgradeExec)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	}
	return conn, err
}

// collect reads frames to the last one.
func collect(t *testing.T, conn net.Conn) (out, errs string, code int) {
	t.Helper()
	for {
		kind, p, err := nodewire.ReadFrame(conn)
		if err != nil {
			t.Fatalf("no last frame: %v (so far %q)", err, out)
		}
		switch kind {
		case nodewire.FrameStdout:
			out += string(p)
		case nodewire.FrameStderr:
			errs += string(p)
		case nodewire.FrameExit:
			return out, errs, int(int32(binary.BigEndian.Uint32(p)))
		case nodewire.FrameError:
			return out, string(p), -1
		}
	}
}

func TestExecOverTheTunnel(t *testing.T) {
	t.Parallel()
	d, engine, _ := connected(t)

	conn, err := dialExec(t, d, "inst_1", nodewire.ExecRequest{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789abcdef", 20_000)
	go func() {
		for i := 0; i < len(big); i += 1000 {
			_ = nodewire.WriteFrame(conn, nodewire.FrameStdin, []byte(big[i:min(i+1000, len(big))]))
		}
		_ = nodewire.WriteFrame(conn, nodewire.FrameStdinClose, nil)
	}()
	if out, _, code := collect(t, conn); out != big || code != 0 {
		t.Errorf("cat gave %d bytes of %d and exit code %d", len(out), len(big), code)
	}

	if conn, err = dialExec(t, d, "inst_1", nodewire.ExecRequest{Command: []string{"exit", "42"}}); err != nil {
		t.Fatal(err)
	}
	if _, _, code := collect(t, conn); code != 42 {
		t.Errorf("exit code %d, want 42", code)
	}

	if conn, err = dialExec(t, d, "inst_1", nodewire.ExecRequest{Command: []string{"size"}, TTY: true}); err != nil {
		t.Fatal(err)
	}
	_ = nodewire.WriteFrame(conn, nodewire.FrameResize, []byte{0, 120, 0, 40})
	if out, _, _ := collect(t, conn); out != "120 40\n" {
		t.Errorf("after a resize: %q", out)
	}

	// A shell of a guest that ends, ends.
	if conn, err = dialExec(t, d, "inst_1", nodewire.ExecRequest{Command: []string{"sleep"}}); err != nil {
		t.Fatal(err)
	}
	if conn2, err := dialExec(t, d, "inst_1", nodewire.ExecRequest{}); err != nil {
		t.Error(err)
	} else if _, errs, code := collect(t, conn2); code != 127 || !strings.Contains(errs, "simulated") {
		t.Errorf("a login shell of a simulated guest: %q, %d", errs, code)
	}
	engine.Exit("inst_1", 0)
	if _, _, code := collect(t, conn); code != 137 {
		t.Errorf("exit code %d of a shell whose guest ended", code)
	}

	var refused *tunnel.StatusError
	if _, err = dialExec(t, d, "inst_other", nodewire.ExecRequest{}); !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound {
		t.Errorf("a terminal in an unknown instance: %v", err)
	}
}

func fetch(t *testing.T, d *testDoor, path string) (*http.Response, error) {
	t.Helper()
	req, _ := http.NewRequestWithContext(wireCtx(t), http.MethodGet, "http://node"+path, nil)
	return d.pool.Transport("node_1").RoundTrip(req)
}

func TestLogsOverTheTunnel(t *testing.T) {
	t.Parallel()
	d, engine, _ := connected(t)
	engine.Say("inst_1", "one")
	engine.Say("inst_1", "two")
	resp, err := fetch(t, d, "/instances/inst_1/logs?tail=1")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(body) != "two\n" {
		t.Errorf("tail: %q", body)
	}

	resp, err = fetch(t, d, "/instances/inst_1/logs?tail=1&follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 100)
	n, _ := io.ReadAtLeast(resp.Body, buf, 4)
	engine.Say("inst_1", "three")
	m, _ := io.ReadAtLeast(resp.Body, buf[n:], 6)
	if got := string(buf[:n+m]); got != "two\nthree\n" {
		t.Errorf("follow: %q", got)
	}
	engine.Exit("inst_1", 0)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the log of an ended guest must end in order: %v", err)
	}
	for path, want := range map[string]int{
		"/instances/inst_x/logs": 404, "/instances/inst_1/logs?tail=-1": 400, "/instances/inst_x/metrics": 404,
		"/healthz": 200, "/gpus/metrics": 200, "/instances/inst_1/metrics": 200, "/nothing": 404,
	} {
		resp, err := fetch(t, d, path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	d := newTestDoor(t)
	d.life = 4 * time.Second
	dir := t.TempDir()
	id, err := Enrol(wireCtx(t), d.enrolment(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, _, remote := startConnected(t, d, dir, id)
	eventually(t, "a new certificate", func() bool { return time.Until(remote.pair.Load().Leaf.NotAfter) > time.Minute })
	saved, err := loadIdentity(dir)
	if err != nil || saved.Key == id.Key {
		t.Errorf("the new identity is not on disk: %v", err)
	}
	eventually(t, "connections with it", func() bool {
		return d.pool.Idle("node_1") >= 2
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.renewed != 1 {
		t.Errorf("renewed %d times", d.renewed)
	}
}
