package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// RemoteDoor reaches a control plane over mutual TLS and keeps the node's
// certificate fresh.
type RemoteDoor struct {
	url      string
	name     string
	stateDir string
	log      *slog.Logger
	pair     atomic.Pointer[tls.Certificate]
	tls      *tls.Config
	client   *http.Client
	dialer   atomic.Pointer[tunnel.Dialer]
	source   net.Addr
}

// From makes the door dial from one of the host's addresses, so that nodes that
// share a host can be told apart on the network. Before Serve.
func (d *RemoteDoor) From(ip net.IP) {
	d.source = &net.TCPAddr{IP: ip}
	dial := &net.Dialer{Timeout: 10 * time.Second, LocalAddr: d.source}
	d.client.Transport.(*http.Transport).DialContext = dial.DialContext
}

// NewDoor makes the door of an enrolled node.
func NewDoor(id *Identity, doorURL, name, stateDir string, log *slog.Logger) (*RemoteDoor, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	pair, err := id.keyPair()
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(id.CA)) {
		return nil, errors.New("make door: the identity holds no CA")
	}
	d := &RemoteDoor{url: doorURL, name: name, stateDir: stateDir, log: log}
	d.pair.Store(&pair)
	d.tls = &tls.Config{
		RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return d.pair.Load(), nil
		},
	}
	d.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: d.TLS(), IdleConnTimeout: 60 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}}
	return d, nil
}

// TLS is for others who go through the door with the node's certificate, as
// image pulls do. It always presents the present one.
func (d *RemoteDoor) TLS() *tls.Config { return d.tls.Clone() }

// URL is the door's address.
func (d *RemoteDoor) URL() string { return d.url }

// Report implements Door.
func (d *RemoteDoor) Report(ctx context.Context, r nodewire.Report) (nodewire.ReportAnswer, error) {
	var answer nodewire.ReportAnswer
	err := postJSON(ctx, d.client, d.url+nodewire.PathReports, r, &answer)
	return answer, err
}

// Secrets fetches what an instance needs and the ledger must not hold.
func (d *RemoteDoor) Secrets(ctx context.Context, id string) (out nodewire.Secrets, err error) {
	path := strings.Replace(nodewire.PathSecrets, "{id}", url.PathEscape(id), 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return out, fmt.Errorf("fetch secrets: %w", err)
	}
	res, err := d.client.Do(req)
	if err != nil {
		return out, fmt.Errorf("fetch secrets: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return out, fmt.Errorf("fetch secrets: the node door answered %s", res.Status) // its body stays out of logs
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxSecrets)).Decode(&out); err != nil {
		return nodewire.Secrets{}, errors.New("fetch secrets: the answer is not what was expected")
	}
	return out, nil
}

const maxSecrets = 1 << 20

// secrets is how an instance's are fetched when they are needed; nil: it has none.
func (a *Agent) secrets(want *nodewire.Instance) func(context.Context) (nodewire.Secrets, error) {
	if !want.HasUserData && !want.Image.Private {
		return nil
	}
	door, ok := a.cfg.Door.(interface {
		Secrets(ctx context.Context, id string) (nodewire.Secrets, error)
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context) (nodewire.Secrets, error) { return door.Secrets(ctx, want.ID) }
}

// Serve implements Door.
func (d *RemoteDoor) Serve(ctx context.Context, h http.Handler) error {
	dialer := &tunnel.Dialer{
		URL: d.url + nodewire.PathConnect, Protocol: nodewire.UpgradeReverse, TLS: d.tls, Handler: h, Log: d.log, Source: d.source,
	}
	d.dialer.Store(dialer)
	go d.keepFresh(ctx)
	return dialer.Run(ctx)
}

// keepFresh renews the certificate at two thirds of its life.
func (d *RemoteDoor) keepFresh(ctx context.Context) {
	wait := time.Second
	for {
		if !sleep(ctx, time.Until(renewAt(d.pair.Load().Leaf))) {
			return
		}
		if err := d.renew(ctx); err != nil {
			d.log.Warn("renew certificate", "error", err, "ends", d.pair.Load().Leaf.NotAfter, "retry_in", wait)
			if !sleep(ctx, wait) {
				return
			}
			wait = min(2*wait, time.Minute)
			continue
		}
		wait = time.Second
	}
}

func (d *RemoteDoor) renew(ctx context.Context) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	csr, err := newCSR(key, d.name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var resp nodewire.EnrollResponse
	if err := postJSON(ctx, d.client, d.url+nodewire.PathRenew, nodewire.RenewRequest{CSR: csr}, &resp); err != nil {
		return err
	}
	id, err := newIdentity(key, resp)
	if err != nil {
		return err
	}
	pair, err := id.keyPair()
	if err != nil {
		return err
	}
	if !renewAt(pair.Leaf).After(time.Now()) {
		return fmt.Errorf("the new certificate ends on %s already", pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	if err := id.save(d.stateDir); err != nil {
		return err
	}
	d.pair.Store(&pair)
	d.client.CloseIdleConnections()
	if dialer := d.dialer.Load(); dialer != nil {
		dialer.Refresh()
	}
	d.log.Info("certificate renewed", "ends", pair.Leaf.NotAfter)
	return nil
}
