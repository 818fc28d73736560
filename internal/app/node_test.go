package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func signingRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// enroll makes a node as its agent would.
func (h *house) enroll(t *testing.T, name string) cloud.NodeID {
	t.Helper()
	tok, err := h.JoinTokenCreate(t.Context(), h.admin, app.JoinTokenInput{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.NodeEnroll(t.Context(), nodewire.EnrollRequest{JoinToken: tok.Secret, Name: name, CSR: signingRequest(t), VCPU: 8, MemoryMiB: 16384})
	if err != nil {
		t.Fatal(err)
	}
	var id cloud.NodeID
	if err := id.UnmarshalText([]byte(got.NodeID)); err != nil {
		t.Fatal(err)
	}
	return id
}

func card(n string) nodewire.GPU {
	return nodewire.GPU{UUID: "GPU-" + n, PCIAddress: "0000:0" + n + ":00.0", Model: "h100-80gb", Geometry: "mig8", Mode: "mig", State: "ready", MemoryMiB: 81559, NUMANode: -1, Simulated: true}
}

func report(cards ...nodewire.GPU) nodewire.Report {
	return nodewire.Report{Sequence: 1, Agent: "test", VCPU: 8, MemoryMiB: 16384, ProbeOK: true, GPUs: cards}
}

func TestEnrolment(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	tok, err := h.JoinTokenCreate(ctx, h.admin, app.JoinTokenInput{})
	if err != nil {
		t.Fatal(err)
	}
	ask := nodewire.EnrollRequest{JoinToken: tok.Secret, Name: "n1", CSR: signingRequest(t), VCPU: 8, MemoryMiB: 16384}
	first, err := h.NodeEnroll(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.NodeEnroll(ctx, ask)
	if err != nil || again.NodeID != first.NodeID {
		t.Fatalf("a lost answer is not repeated: %v", err)
	}
	ask.Name = "n2"
	_, err = h.NodeEnroll(ctx, ask)
	wantCode(t, "a second node", err, cloud.KindUnauthenticated, "token_used")
	ask.JoinToken = authn.SecretNew(authn.PrefixJoin)
	_, err = h.NodeEnroll(ctx, ask)
	wantCode(t, "an unknown token", err, cloud.KindUnauthenticated, "token_unknown")
	block, _ := pem.Decode([]byte(first.Certificate))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	id, err := h.keys.NodeOf(cert)
	if err != nil || id.String() != first.NodeID {
		t.Fatalf("%v, %v", id, err)
	}
	if err := h.NodeCertificateValid(ctx, id, authn.SerialText(cert.SerialNumber)); err != nil {
		t.Error(err)
	}
	other := h.enroll(t, "n3")
	wantCode(t, "another node's certificate", h.NodeCertificateValid(ctx, other, authn.SerialText(cert.SerialNumber)), cloud.KindUnauthenticated, "certificate_revoked")
	exec(t, h, `UPDATE node_certificate SET revoked_at = now() WHERE node_id = $1`, id)
	wantCode(t, "revoked", h.NodeCertificateValid(ctx, id, authn.SerialText(cert.SerialNumber)), cloud.KindUnauthenticated, "certificate_revoked")
	if _, err := h.NodeRenew(ctx, other, nodewire.RenewRequest{CSR: signingRequest(t)}); err != nil {
		t.Error(err)
	}
}

// Case C3: however a node spells an address, its card is one row.
func TestC3RespelledAddressIsTheSameCard(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	n := h.enroll(t, "n1")
	for _, spelling := range []string{"0000:42:00.0", "00000000:42:00.0", "42:00.0"} {
		one, other, none := card("1"), card("2"), card("3")
		one.PCIAddress, other.PCIAddress, none.PCIAddress = spelling, "00000001:C8:00.0", "0000:42:20.0"
		one.NVLink = []string{"1:c8:00.0"}
		if _, err := h.NodeReport(t.Context(), n, report(one, other, none)); err != nil {
			t.Fatal(err)
		}
		got := must(h.GPUList(t.Context(), h.admin, app.GPUFilter{}, app.Page{})).Items
		if len(got) != 2 || got[0].PCIAddress != "0000:42:00.0" || got[0].NVLink[0] != got[1].PCIAddress || got[1].PCIAddress != "0001:c8:00.0" {
			t.Errorf("reported at %s: %+v", spelling, got)
		}
	}
}

// Case C25, and C5: a card that is not seen is missing, one that was not probed
// is unknown; none goes, and nothing is freed.
func TestReportedCardsAreCountedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	n := h.enroll(t, "n1")
	var cards []nodewire.GPU
	for _, i := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		cards = append(cards, card(i))
	}
	cards[7].State, cards[7].Reason = "quarantined", "no reset method"
	answer, err := h.NodeReport(ctx, n, report(cards...))
	if err != nil || !answer.WantsAssignment || answer.NextSeconds == 0 {
		t.Fatalf("%+v, %v", answer, err)
	}
	exec(t, h, `UPDATE node SET state = 'ready'`)
	for range 6 {
		made, err := h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "i" + cloud.InstanceID{}.New().String()[20:], Image: "debian-12", Flavor: "h100-7g-80gb"})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, h, `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
			SELECT gen_random_uuid(), (SELECT g.id FROM gpu g WHERE g.state = 'ready' AND NOT EXISTS (SELECT FROM gpu_claim c WHERE c.gpu_id = g.id) LIMIT 1),
				org_id, project_id, id, 1, 'mig', 'mig8', '7g', '[0,8)' FROM instance WHERE id = $1`, made.ID)
	}
	got, err := h.Capacity(ctx, h.admin)
	want := app.CapacityLine{Simulated: true, Total: 8, Healthy: 7, Used: 6, Free: 1, SlotsTotal: 64, SlotsUsed: 48}
	if diff := cmp.Diff(want, got.Total); diff != "" || err != nil || len(got.Models) != 1 {
		t.Errorf("%v %s", err, diff)
	}
	list, err := h.GPUList(ctx, h.admin, app.GPUFilter{Node: "n1"}, app.Page{Limit: 5})
	if err != nil || len(list.Items) != 5 || list.NextPageToken == "" {
		t.Fatalf("%d cards, %v", len(list.Items), err)
	}
	rest, err := h.GPUList(ctx, h.admin, app.GPUFilter{Node: "n1"}, app.Page{Limit: 5, Token: list.NextPageToken})
	if err != nil || len(rest.Items) != 3 || rest.NextPageToken != "" {
		t.Fatalf("%d more, %v", len(rest.Items), err)
	}
	node, err := h.NodeGet(ctx, h.admin, "n1")
	if err != nil || len(node.GPUs) != 8 || len(node.GPUs[0].Claims)+len(node.GPUs[1].Claims)+len(node.GPUs[2].Claims) == 0 {
		t.Fatalf("%+v, %v", node, err)
	}
	states := func() map[string]int {
		out := map[string]int{}
		for _, g := range must(h.GPUList(ctx, h.admin, app.GPUFilter{}, app.Page{})).Items {
			out[string(g.State)]++
		}
		return out
	}
	if _, err := h.NodeReport(ctx, n, report(cards[1:]...)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"missing": 1, "quarantined": 1, "ready": 6}, states()); diff != "" {
		t.Error(diff)
	}
	blind := report()
	blind.ProbeOK = false
	if _, err := h.NodeReport(ctx, n, blind); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"unknown": 8}, states()); diff != "" {
		t.Error(diff)
	}
	// A card whose cut changed under a claim is not believed, and the rest of the report is.
	for i := range cards {
		cards[i].Mode = "whole"
	}
	r := report(cards...)
	r.Agent = "newer"
	if _, err := h.NodeReport(ctx, n, r); err != nil {
		t.Fatal(err)
	}
	if n := count(t, h, `SELECT count(*) FROM gpu g WHERE mode = 'mig' AND state = 'quarantined' AND EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id)`); n != 6 {
		t.Errorf("%d held cards are out, in the mode that they are held in", n)
	}
	if n := count(t, h, `SELECT count(*) FROM gpu_claim`); n != 6 || count(t, h, `SELECT count(*) FROM node WHERE agent_version = 'newer'`) != 1 || count(t, h, `SELECT count(*) FROM gpu WHERE mode = 'whole'`) != 2 {
		t.Error("claims, the report or the cards' cut were changed")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A node speaks of what is placed on it, and of nothing else.
func TestNodeSeesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	one, two := h.enroll(t, "n1"), h.enroll(t, "n2")
	made := must(h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "web-1", Image: "debian-12", Flavor: "cpu-small", Env: map[string]string{"SECRET": "x"}}))
	exec(t, h, `UPDATE instance SET state = 'starting', node_id = $1, epoch = 1`, one)
	if a := must(h.NodeAssignment(ctx, two)); len(a.Instances) != 0 {
		t.Errorf("another node's assignment: %+v", a)
	}
	if a := must(h.NodeAssignment(ctx, one)); len(a.Instances) != 1 || a.Instances[0].Env["SECRET"] != "x" || !a.Instances[0].Image.Embedded {
		t.Errorf("its own: %+v", a)
	}
	if err := h.NodeMayPull(ctx, one, "tenon/debian-12"); err != nil {
		t.Error(err)
	}
	wantCode(t, "pull by another node", h.NodeMayPull(ctx, two, "tenon/debian-12"), cloud.KindNotFound, "not_found")
	wantCode(t, "pull of what is not assigned", h.NodeMayPull(ctx, one, "tenon/other"), cloud.KindNotFound, "not_found")
	r := report()
	r.Instances = []nodewire.InstanceReport{{ID: made.ID.String(), Epoch: 1, State: "running", RanForSeconds: 1e300}, {ID: "junk", State: "running"}, {ID: made.ID.String(), State: "dancing"}}
	if _, err := h.NodeReport(ctx, two, r); err != nil {
		t.Fatal(err)
	}
	if n := count(t, h, `SELECT count(*) FROM observation`); n != 0 {
		t.Error("a node's word of another's instance was kept")
	}
	woken, done := h.pg.DB.Wakes("lifecycle")
	defer done()
	if _, err := h.NodeReport(ctx, one, r); err != nil {
		t.Fatal(err)
	}
	<-woken
	if n := count(t, h, `SELECT count(*) FROM observation WHERE state = 'running'`); n != 1 {
		t.Error("its own word was not kept")
	}
	if err := h.NodeAck(ctx, one, nodewire.Version{Era: "0190f000-0000-7000-8000-000000000000", Generation: 3}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, h, `SELECT ack_generation FROM node WHERE id = $1`, one); n != 3 {
		t.Errorf("acknowledged %d", n)
	}
}
