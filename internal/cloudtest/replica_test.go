package cloudtest_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tenon-cloud/tenon/api"
)

// What comes to a replica that the node is not connected to works as well.
func TestEitherReplicaReachesANode(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme := c.Tenant("acme")
	i := c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	r := c.Replica()
	other := c.At(r, acme.Client)
	ctx := within(t, 60*time.Second)

	var list *api.List[api.Replica]
	var err error
	eventually(t, "both replicas are listed, one with the node", func() bool {
		list, err = c.Admin.ReplicaList(ctx)
		return err == nil && len(list.Items) == 2 && list.Items[0].Nodes == 1
	})
	if one, two := list.Items[0], list.Items[1]; one.ID != "replica-1" || !one.Leader || two.ID != "replica-2" || two.Leader || two.Nodes != 0 || two.Address == "" {
		t.Errorf("replicas %+v", list.Items)
	}
	if _, err := acme.ReplicaList(ctx); err == nil || problemOf(t, err).Status != http.StatusForbidden {
		t.Errorf("a tenant sees replicas: %v", err)
	}

	var out bytes.Buffer
	big := strings.Repeat("0123456789abcdef", 100_000)
	if code, err := other.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"cat"}, Stdin: strings.NewReader(big), Stdout: &out}); err != nil || code != 0 || out.String() != big {
		t.Errorf("a terminal: %d %v, %d bytes", code, err, out.Len())
	}
	c.Guests.Say(i.ID, "hello")
	logs, err := other.Logs(ctx, "default", "web-1", api.LogOptions{Tail: 1})
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(logs); string(text) != "hello\n" {
		t.Errorf("logs: %q", text)
	}
	_ = logs.Close()
	b := newTab(t, r.URL)
	o, err := other.InstanceOpen(ctx, "default", "web-1", 8888)
	if err != nil {
		t.Fatal(err)
	}
	b.host = o.Host
	b.follow(o.URL)
	if saw := b.saw(b.do("GET", "/x", nil)); saw.Instance != i.ID {
		t.Errorf("a web page: %+v", saw)
	}
	// The link was spent on one replica; neither takes it again.
	again := newTab(t, c.URL)
	again.host = o.Host
	if res := again.do("GET", o.URL, nil, "Host", o.Host); res.status != http.StatusNotFound {
		t.Errorf("a spent link on the other replica: %d", res.status)
	}

	ticket, err := acme.ExecTicket(ctx, "default", "web-1")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(at string) error {
		ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(at, "http")+"/v1/projects/default/instances/web-1/exec?command=echo&ticket="+ticket.Ticket, nil)
		if err == nil {
			_ = ws.CloseNow()
		}
		return err
	}
	if err := dial(r.URL); err != nil {
		t.Errorf("a ticket of one replica on the other: %v", err)
	}
	if err := dial(c.URL); err == nil {
		t.Error("a ticket was used on both replicas")
	}
}

func TestEventsGoOnAtTheOtherReplica(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme := c.Tenant("acme")
	r := c.Replica()
	ctx := within(t, 60*time.Second)
	in := api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")}
	enough := errors.New("enough")
	var seen []api.Event
	made := make(chan struct{})
	go func() {
		defer close(made)
		c.Running(acme.Client, in)
	}()
	err := acme.Events(ctx, "default", "0-0", func(e api.Event) error {
		seen = append(seen, e)
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	<-made
	if _, err := acme.InstanceDelete(ctx, "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	// The rest comes from the other replica: every one, once.
	err = c.At(r, acme.Client).Events(ctx, "default", seen[0].Cursor, func(e api.Event) error {
		if seen = append(seen, e); e.Verb == "deleted" {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	bySeq := map[string][]bool{}
	for _, e := range seen {
		if e.Resource != "instance" {
			continue
		}
		for int64(len(bySeq[e.ResourceID])) < e.Seq {
			bySeq[e.ResourceID] = append(bySeq[e.ResourceID], false)
		}
		if bySeq[e.ResourceID][e.Seq-1] {
			t.Errorf("%s came twice", e.Verb)
		}
		bySeq[e.ResourceID][e.Seq-1] = true
	}
	for id, all := range bySeq {
		for n, there := range all {
			if !there {
				t.Errorf("event %d of %s was passed over", n+1, id)
			}
		}
	}
	if len(bySeq) != 1 {
		t.Errorf("%d instances in %+v", len(bySeq), seen)
	}
}

// The replicas' door lets no node in, and the nodes' door no replica.
func TestReplicasAndNodesAreToldApart(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	ctx := within(t, 30*time.Second)
	var address string
	eventually(t, "the replica is listed", func() bool {
		list, err := c.Admin.ReplicaList(ctx)
		if err == nil && len(list.Items) == 1 {
			address = list.Items[0].Address
		}
		return address != ""
	})
	asNode, _ := nodeCertificate(ctx, t, c, "node-2")
	asReplica, err := c.Keys.ReplicaCertificate("replica-9", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(url string, cert *tls.Certificate) error {
		config := &tls.Config{InsecureSkipVerify: true}
		if cert != nil {
			config.Certificates = []tls.Certificate{*cert}
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "tenon-peer/1")
		res, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode != http.StatusUpgradeRequired {
			return errors.New(res.Status)
		}
		return nil
	}
	peer := "https://" + address + "/v1/nodes/" + c.NodeID
	if err := ask(peer, &asReplica); err != nil {
		t.Errorf("a replica at the replicas' door: %v", err)
	}
	if err := ask(peer, asNode); err == nil {
		t.Error("a node was let in at the replicas' door")
	}
	if err := ask(peer, nil); err == nil {
		t.Error("nobody was let in at the replicas' door")
	}
	if err := ask(c.DoorURL+"/v1/connect", &asReplica); err == nil {
		t.Error("a replica was let in at the nodes' door")
	}
	if _, err := c.Keys.ReplicaOf(nil, x509.ExtKeyUsageClientAuth, time.Now()); err == nil {
		t.Error("no certificate names a replica")
	}
}
