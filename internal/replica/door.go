package replica

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

const (
	protocol = "tenon-peer/1"
	nodePath = "/v1/nodes/" // and a node's id
)

// Serve hands out streams to the nodes that are connected here, to the other
// replicas, on a plain listener until ctx ends.
func (r *Replica) Serve(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+nodePath+"{node}", r.handOut)
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	end := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer end()
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.certificate() },
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := r.cfg.Keys.ReplicaOf(state.PeerCertificates, x509.ExtKeyUsageClientAuth, time.Now())
			return err
		},
	}
	err := srv.Serve(tls.NewListener(ln, config))
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve the replicas' door: %w", err)
}

// certificate is short work and made anew for each connection's handshake of the
// few that there are.
func (r *Replica) certificate() (*tls.Certificate, error) {
	c, err := r.cfg.Keys.ReplicaCertificate(r.cfg.ID, time.Now())
	return &c, err
}

func (r *Replica) handOut(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), r.cfg.Timing.Dial)
	defer cancel()
	node, err := r.cfg.Pool.DialLocal(ctx, req.PathValue("node"))
	switch {
	case errors.Is(err, tunnel.ErrNotConnected):
		http.Error(w, "the node is not connected here", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, "the node has no free connection", http.StatusServiceUnavailable)
		return
	}
	defer node.Close()
	peer, err := tunnel.Accept(w, req, protocol)
	if err != nil {
		return // Accept has answered
	}
	defer peer.Close()
	end := context.AfterFunc(req.Context(), func() { _ = peer.Close(); _ = node.Close() })
	defer end()
	splice(peer, node)
}

// splice joins two streams until both directions, or either side, have ended.
func splice(a, b net.Conn) {
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); !ok || err != nil || half.CloseWrite() != nil {
			_ = a.Close()
			_ = b.Close()
		}
	}
	both.Go(func() { one(a, b) })
	both.Go(func() { one(b, a) })
	both.Wait()
}

// dial reaches a node through another replica: the pool's Remote.
func (r *Replica) dial(ctx context.Context, node string) (net.Conn, error) {
	var id cloud.NodeID
	if err := id.UnmarshalText([]byte(node)); err != nil {
		return nil, tunnel.ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timing.Dial)
	defer cancel()
	others, err := r.cfg.App.ReplicasOf(ctx, id, r.cfg.ID, r.cfg.Timing.Stale)
	if err != nil {
		return nil, fmt.Errorf("find the replica of %s: %w", id, err)
	}
	all := tunnel.ErrNotConnected
	for _, other := range others {
		conn, err := r.through(ctx, other.ID, other.Address, id)
		if err == nil {
			return conn, nil
		}
		r.log.DebugContext(ctx, "reach a node through another replica", "node", id, "replica", other.ID, "error", err)
		all = fmt.Errorf("through %s: %w", other.ID, err)
	}
	return nil, all
}

// through asks one replica for a stream.
func (r *Replica) through(ctx context.Context, other, address string, node cloud.NodeID) (net.Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return r.certificate() },
		InsecureSkipVerify:   true, // who it is says its identity, not the name that it was reached by
		VerifyConnection: func(state tls.ConnectionState) error {
			id, err := r.cfg.Keys.ReplicaOf(state.PeerCertificates, x509.ExtKeyUsageServerAuth, time.Now())
			if err == nil && id != other {
				err = fmt.Errorf("replica %s answers in place of %s", id, other)
			}
			return err
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+nodePath+node.String(), nil)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	up, err := tunnel.Upgrade(ctx, conn, req, protocol)
	if status := (*tunnel.StatusError)(nil); errors.As(err, &status) && status.StatusCode == http.StatusNotFound {
		return nil, tunnel.ErrNotConnected
	}
	return up, err
}
