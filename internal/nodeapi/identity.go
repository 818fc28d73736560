package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

type contextKey struct{}

// nodeOf is the node that a request comes from.
func nodeOf(ctx context.Context) (cloud.NodeID, bool) {
	id, ok := ctx.Value(contextKey{}).(cloud.NodeID)
	return id, ok
}

// identified lets a request in by its client certificate, if that is not
// revoked. What is found good stays so for as long as the periodic check takes.
func (s *Server) identified(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			refuse(w, cloud.E(cloud.KindUnauthenticated, "certificate_missing", "a node's certificate is needed").WithHint("enrol with a join token"))
			return
		}
		cert := r.TLS.VerifiedChains[0][0]
		id, err := s.cfg.Keys.NodeOf(cert)
		if err == nil {
			serial := authn.SerialText(cert.SerialNumber)
			if err = s.good(r.Context(), id, serial); err != nil && cloud.KindOf(err) == cloud.KindUnauthenticated {
				err = s.app.NodeCertificateAdopt(r.Context(), id, serial, cert.NotBefore.Add(authn.CertificateSkew), cert.NotAfter)
			}
			if err == nil {
				s.seen(id, serial)
			}
		}
		if err != nil {
			refuse(w, err)
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, id)))
	}
}

func (s *Server) good(ctx context.Context, id cloud.NodeID, serial string) error {
	s.mu.Lock()
	at, ok := s.valid[serial]
	s.mu.Unlock()
	// Twice: the periodic check itself takes its time.
	if ok && time.Since(at) < 2*s.cfg.Timing.Check {
		return nil
	}
	err := s.app.NodeCertificateValid(ctx, id, serial)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.valid, serial)
		return err
	}
	s.valid[serial] = time.Now()
	return nil
}

func (s *Server) seen(id cloud.NodeID, serial string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serials[id] == nil {
		s.serials[id] = map[string]time.Time{}
	}
	s.serials[id][serial] = time.Now()
}

// checkCertificates ends the connections of a node one of whose certificates in
// use is revoked. A database that can't be asked ends nothing.
func (s *Server) checkCertificates(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Timing.Check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		inUse := s.inUse()
		var all []string
		for _, serials := range inUse {
			all = append(all, serials...)
		}
		if len(all) == 0 {
			continue
		}
		asked := time.Now()
		live, err := s.app.NodeCertificatesLive(ctx, all)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("check the certificates of connected nodes", "error", err)
			}
			continue
		}
		for id, serials := range inUse {
			for _, serial := range serials {
				if live[serial] == id {
					s.found(serial, asked)
					continue
				}
				s.log.Warn("node certificate is no longer good: its connections end", "node", id, "serial", serial)
				s.cfg.Pool.CloseNode(id.String())
				s.forget(id, serial)
			}
		}
	}
}

// found keeps that a certificate was good when the database was asked.
func (s *Server) found(serial string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.valid[serial] = at
}

func denied(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.KindUnauthenticated, cloud.KindForbidden, cloud.KindNotFound:
		return true
	}
	return false
}

// inUse lists the certificates of nodes that have connections here. One that was
// not presented for a day has ended by itself.
func (s *Server) inUse() map[cloud.NodeID][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[cloud.NodeID][]string{}
	for id, serials := range s.serials {
		connected := s.cfg.Pool.Has(id.String())
		for serial, at := range serials {
			switch {
			case time.Since(at) > authn.NodeCertificateFor, !connected && time.Since(at) > time.Minute:
				delete(serials, serial)
				delete(s.valid, serial)
			case connected:
				out[id] = append(out[id], serial)
			}
		}
		if len(serials) == 0 {
			delete(s.serials, id)
		}
	}
	return out
}

func (s *Server) forget(id cloud.NodeID, serial string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.serials[id], serial)
	delete(s.valid, serial)
}

// statusOf is what a node makes of an error: try again, or don't.
var statusOf = map[cloud.Kind]int{
	cloud.KindMalformed: http.StatusBadRequest, cloud.KindUnauthenticated: http.StatusUnauthorized, cloud.KindForbidden: http.StatusForbidden,
	cloud.KindNotFound: http.StatusNotFound, cloud.KindConflict: http.StatusConflict, cloud.KindInvalid: http.StatusUnprocessableEntity,
	cloud.KindTooLarge: http.StatusRequestEntityTooLarge, cloud.KindRateLimited: http.StatusTooManyRequests, cloud.KindUnavailable: http.StatusServiceUnavailable,
}

// refuse answers an error; the cause of an internal one is not the node's.
func refuse(w http.ResponseWriter, err error) {
	status, code, message, hint := http.StatusInternalServerError, "internal", "something went wrong at the control plane", "try again"
	var e *cloud.Error
	if k, ok := statusOf[cloud.KindOf(err)]; ok && asError(err, &e) {
		status, code, message, hint = k, e.Code, e.Message, e.Hint
	}
	answer(w, status, map[string]string{"error": message, "code": code, "hint": hint})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
