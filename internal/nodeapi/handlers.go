package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/registry"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

const (
	maxEnrol  = 64 << 10
	maxReport = 16 << 20
)

func asError(err error, target **cloud.Error) bool { return errors.As(err, target) }

func read(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(v)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return cloud.E(cloud.KindTooLarge, "body_too_large", "the body is larger than %d KiB", limit>>10)
	case err != nil:
		return cloud.E(cloud.KindMalformed, "malformed_json", "the body is not the JSON that was expected: %v", err)
	}
	return nil
}

// enroll turns a join token into an identity: the only path without a
// certificate.
func (s *Server) enroll(w http.ResponseWriter, r *http.Request) {
	var in nodewire.EnrollRequest
	if err := read(w, r, maxEnrol, &in); err != nil {
		refuse(w, err)
		return
	}
	in.VCPU, in.MemoryMiB = between(in.VCPU, 0, maxVCPU), between(in.MemoryMiB, 0, maxMemoryMiB)
	out, err := s.app.NodeEnroll(r.Context(), in)
	if err != nil {
		s.logged("enrol", in.Name, err)
		refuse(w, err)
		return
	}
	s.log.Info("node enrolled", "node", out.NodeID, "name", clip(in.Name, 63), "address", r.RemoteAddr)
	answer(w, http.StatusOK, out)
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) {
	id, _ := nodeOf(r.Context())
	var in nodewire.RenewRequest
	err := read(w, r, maxEnrol, &in)
	var out nodewire.EnrollResponse
	if err == nil {
		out, err = s.app.NodeRenew(r.Context(), id, in)
	}
	if err != nil {
		s.logged("renew", id.String(), err)
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, out)
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	id, _ := nodeOf(r.Context())
	var in nodewire.Report
	err := read(w, r, maxReport, &in)
	var out nodewire.ReportAnswer
	if err == nil {
		dropped := clean(&in)
		for _, d := range dropped {
			s.log.Warn("dropped a part of a node's report", "node", id, "part", d)
		}
		out, err = s.app.NodeReport(r.Context(), id, in)
	}
	if err != nil {
		s.logged("report", id.String(), err)
		refuse(w, err)
		return
	}
	s.reported(id, in.Version)
	answer(w, http.StatusOK, out)
}

// secrets gives what an instance on the node needs and its ledger must not hold.
func (s *Server) secrets(w http.ResponseWriter, r *http.Request) {
	id, _ := nodeOf(r.Context())
	out, err := s.app.NodeSecrets(r.Context(), id, r.PathValue("id"))
	if err != nil {
		s.logged("secrets", id.String(), err)
		refuse(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	answer(w, http.StatusOK, out)
}

// connect hands a reverse connection to the pool.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	id, _ := nodeOf(r.Context())
	conn, err := tunnel.Accept(w, r, nodewire.UpgradeReverse)
	if err != nil {
		s.log.Debug("accept reverse connection", "node", id, "error", err)
		return
	}
	if err := s.cfg.Pool.Add(id.String(), conn); err != nil {
		s.log.Debug("keep reverse connection", "node", id, "error", err)
	}
}

// registry passes reads on; which repositories, RegistryAuthoriser decides.
func (s *Server) registry(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Registry == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, cloud.E(cloud.KindForbidden, "read_only", "nodes may only pull"))
		return
	}
	s.cfg.Registry.ServeHTTP(w, r)
}

// RegistryAuthoriser lets a node pull what its own assignment names. The node is
// taken from the request that came through this door, never from a credential.
func RegistryAuthoriser(a *app.App) registry.Authoriser {
	return func(ctx context.Context, _ registry.Credential, repository string, actions []string) error {
		id, ok := nodeOf(ctx)
		if !ok {
			return registry.ErrUnauthenticated
		}
		for _, action := range actions {
			if action != registry.ActionPull {
				return registry.ErrForbidden
			}
		}
		if repository == "" {
			return nil // it only asks whether it is let in
		}
		err := a.NodeMayPull(ctx, id, repository)
		if err != nil && denied(err) {
			return registry.ErrForbidden
		}
		if err != nil {
			return fmt.Errorf("ask whether %s may pull %s: %w", id, repository, err)
		}
		return nil
	}
}

// logged keeps what a node is not told.
func (s *Server) logged(what, who string, err error) {
	if k := cloud.KindOf(err); k == cloud.KindInternal || k == cloud.KindUnavailable {
		s.log.Error("node door: "+what, "node", clip(who, 63), "error", err)
	} else {
		s.log.Info("node door refused: "+what, "node", clip(who, 63), "error", err)
	}
}
