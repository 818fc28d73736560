package tunnel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

const (
	testProto = "test-reverse/1"
	testNode  = "node_1"
)

// authority issues the certificates of one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// door is a control plane's end: a mutual-TLS server that fills a Pool.
type door struct {
	*Pool
	addr string
	stop func()

	mu    sync.Mutex
	conns []net.Conn // as accepted, to break them from below
}

func (d *door) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

func openDoor(t *testing.T, ca *authority, addr string) *door {
	t.Helper()
	d := &door{Pool: &Pool{}}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	d.addr = ln.Addr().String()
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			node := r.TLS.PeerCertificates[0].Subject.CommonName
			conn, err := Accept(w, r, testProto)
			if err != nil {
				return
			}
			_ = d.Add(node, conn)
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				d.mu.Lock()
				d.conns = append(d.conns, c.(*tls.Conn).NetConn())
				d.mu.Unlock()
			}
		},
		ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{ca.issue(t, "door")},
			ClientCAs:    ca.pool, ClientAuth: tls.RequireAndVerifyClientCert,
		},
	}
	go func() { _ = srv.ServeTLS(ln, "", "") }()
	d.stop = func() { _ = srv.Close(); d.kill() }
	t.Cleanup(d.stop)
	return d
}

// startNode runs a Dialer until the test ends.
func startNode(t *testing.T, ca *authority, addr string, idle int, h http.Handler) *Dialer {
	t.Helper()
	d := &Dialer{
		URL: "https://" + addr + "/v1/connect", Protocol: testProto, Handler: h, Idle: idle,
		TLS:        &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.issue(t, testNode)}},
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Error("the dialer did not stop")
		}
	})
	return d
}

// eventually waits for a condition, up to five seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}
