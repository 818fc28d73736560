package cloudtest_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// doorClient talks to the node door, with a certificate or without.
func doorClient(t *testing.T, c *cloudtest.Cloud, cert *tls.Certificate) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: c.Keys.CAPool()}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 10 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func post(ctx context.Context, t *testing.T, client *http.Client, target string, in, out any) int {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if out != nil && res.StatusCode == 200 {
		if err := json.Unmarshal(body, out); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode
}

// nodeCertificate enrols another node and gives what it may show.
func nodeCertificate(ctx context.Context, t *testing.T, c *cloudtest.Cloud, name string) (*tls.Certificate, string) {
	t.Helper()
	join, err := c.Admin.JoinTokenCreate(ctx, api.JoinTokenCreate{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	in := nodewire.EnrollRequest{JoinToken: join.JoinToken, Name: name, VCPU: 4, MemoryMiB: 4096, CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))}
	var out nodewire.EnrollResponse
	if status := post(ctx, t, doorClient(t, c, nil), c.DoorURL+nodewire.PathEnroll, in, &out); status != 200 {
		t.Fatalf("enrol: %d", status)
	}
	// The token was good once.
	other := in
	other.Name = name + "-again"
	otherKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	otherCSR, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, otherKey)
	other.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: otherCSR}))
	if status := post(ctx, t, doorClient(t, c, nil), c.DoorURL+nodewire.PathEnroll, other, nil); status/100 != 4 {
		t.Errorf("a join token enrolled two nodes: %d", status)
	}
	block, _ := pem.Decode([]byte(out.Certificate))
	return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, out.NodeID
}

// TestNodeDoorKnowsNodesByTheirCertificates: a node speaks for itself alone.
func TestNodeDoorKnowsNodesByTheirCertificates(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 60*time.Second)
	if status := post(ctx, t, doorClient(t, c, nil), c.DoorURL+nodewire.PathReports, nodewire.Report{}, nil); status != 401 {
		t.Errorf("a report without a certificate: %d", status)
	}

	cert, id := nodeCertificate(ctx, t, c, "intruder")
	intruder := doorClient(t, c, cert)
	lie := nodewire.Report{Sequence: 1, BootID: "b", VCPU: 4, MemoryMiB: 4096, ProbeOK: true, Instances: []nodewire.InstanceReport{{ID: i.ID, Epoch: 1, Generation: 1, State: nodewire.GuestGone}}}
	_ = post(ctx, t, intruder, c.DoorURL+nodewire.PathReports, lie, nil)
	var observed string
	if err := c.DB.Owner.QueryRow(ctx, "SELECT state FROM observation").Scan(&observed); err != nil || observed != "running" {
		t.Errorf("another node's word counted: %q %v", observed, err)
	}
	if now, err := acme.InstanceGet(ctx, "default", i.ID); err != nil || now.State != api.StateRunning {
		t.Errorf("%v %+v", err, now)
	}
	for _, bad := range []string{"{", `{"sequence": "x"}`, strings.Repeat(" ", 17<<20)} {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.DoorURL+nodewire.PathReports, strings.NewReader(bad))
		res, err := intruder.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 400 && res.StatusCode != 413 {
			t.Errorf("a report of %d bytes: %d", len(bad), res.StatusCode)
		}
	}
	if res, err := intruder.Post(c.DoorURL+"/v2/tenon/x/blobs/uploads/", "", nil); err != nil || res.StatusCode != 403 {
		t.Errorf("a node pushed: %v %v", res, err)
	}

	if _, err := c.DB.Owner.Exec(ctx, "UPDATE node_certificate SET revoked_at = now() WHERE node_id = $1", nodeUUID(ctx, t, c, id)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a revoked certificate is refused", func() bool {
		return post(ctx, t, intruder, c.DoorURL+nodewire.PathReports, lie, nil) == 401
	})
}

func nodeUUID(ctx context.Context, t *testing.T, c *cloudtest.Cloud, id string) (out string) {
	t.Helper()
	n, err := c.Admin.NodeGet(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.DB.Owner.QueryRow(ctx, "SELECT id::text FROM node WHERE name = $1", n.Name).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRevokedNodeLosesItsConnections within five seconds, used ones too.
func TestRevokedNodeLosesItsConnections(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 60*time.Second)
	logs, err := acme.Logs(ctx, "default", i.ID, api.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	began := time.Now()
	if _, err := c.DB.Owner.Exec(ctx, "UPDATE node_certificate SET revoked_at = now()"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(logs)
	eventually(t, "the node has no connection", func() bool { return !c.Pool.Has(c.NodeID) })
	t.Logf("from the revocation to the cut: %s", time.Since(began))
	if _, err := acme.Exec(ctx, "default", i.ID, api.ExecOptions{Command: []string{"echo"}}); problemOf(t, err).Code != "node_unreachable" {
		t.Errorf("%v", err)
	}
}

// TestAssignmentReachesTheLedger follows an instance into the ledger and out.
func TestAssignmentReachesTheLedger(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 30*time.Second)
	ledger := func() string {
		raw, _ := os.ReadFile(filepath.Join(c.NodeDir, "ledger.json"))
		return string(raw)
	}
	if !strings.Contains(ledger(), i.ID) {
		t.Error("the node's ledger does not hold what it runs")
	}
	if _, err := acme.InstanceDelete(ctx, "default", i.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := acme.WaitInstance(ctx, "default", i.ID, func(i *api.Instance) bool { return i.State == api.StateDeleted }, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ledger forgets it", func() bool { return !strings.Contains(ledger(), i.ID) })
	node, err := c.Admin.NodeGet(ctx, "node-1")
	if err != nil || node.AckGeneration == 0 || node.AckGeneration > node.Generation {
		t.Errorf("%v %+v", err, node)
	}
}
