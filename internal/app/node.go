package app

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	reportSeconds  = 5 // a node reports after this, or at once when something changes
	lastLinesBytes = 16 << 10
	messageBytes   = 2 << 10
	pidsMax        = 4096
	orphansKept    = 32 // of one report
	labelsKept     = 32
)

// NodeEnroll turns a one-use join token into a node and its certificate. It runs
// as tenon_system, since there is no node yet to run as. The same node may ask
// again with its spent token within the token's life, when the answer was lost.
func (a *App) NodeEnroll(ctx context.Context, in nodewire.EnrollRequest) (nodewire.EnrollResponse, error) {
	if err := authn.SecretCheck(authn.PrefixJoin, in.JoinToken); err != nil {
		return nodewire.EnrollResponse{}, err
	}
	var fields []cloud.Field
	if !cloud.ValidName(in.Name) {
		fields = append(fields, cloud.Field{Location: "body.name", Message: cloud.NameRule, Value: in.Name})
	}
	if in.VCPU < 1 || in.MemoryMiB < 1 {
		fields = append(fields, cloud.Field{Location: "body.vcpu", Message: "a node has at least one vCPU and some memory"})
	}
	if len(fields) > 0 {
		return nodewire.EnrollResponse{}, cloud.Invalid(fields...)
	}
	var cert authn.NodeCertificate
	var id cloud.NodeID
	err := a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		hash := authn.SecretHash(in.JoinToken)
		t, err := postgres.JoinTokenLock(ctx, tx, hash)
		if postgres.Missing(err) {
			return cloud.E(cloud.KindUnauthenticated, "token_unknown", "this cloud does not know the join token")
		}
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if !now.Before(t.ExpiresAt) {
			return cloud.E(cloud.KindUnauthenticated, "token_expired", "the join token expired at %s", t.ExpiresAt.UTC().Format(time.RFC3339)).
				WithHint("make a new one on the nodes page")
		}
		if t.UsedAt == nil {
			id = cloud.NodeID{}.New()
			n := cloud.Node{ID: id, Name: in.Name, PoolID: t.PoolID, Simulated: t.Simulated, VCPU: in.VCPU, MemoryMiB: in.MemoryMiB}
			if err := postgres.NodeAdd(ctx, tx, n); err != nil {
				return taken(err, "node_name_key", "node", in.Name)
			}
			if err := postgres.JoinTokenUse(ctx, tx, hash, id, now); err != nil {
				return err
			}
		} else {
			n, err := postgres.NodeGet(ctx, tx, postgres.RefTo(t.NodeID))
			if err != nil && !postgres.Missing(err) {
				return err
			}
			if err != nil || n.Name != in.Name || n.LastSeenAt != nil {
				return cloud.E(cloud.KindUnauthenticated, "token_used", "the join token was used already").WithHint("make a new one for each node")
			}
			id = n.ID
		}
		if cert, err = a.keys.NodeSign(in.CSR, id, now); err != nil {
			return err
		}
		if err := postgres.NodeCertificateAdd(ctx, tx, cert.Serial, id, cert.NotAfter); err != nil {
			return err
		}
		return postgres.AuditAdd(ctx, tx, postgres.Audit{Action: "node.enroll", Resource: id.String(), Detail: map[string]any{"name": in.Name}})
	})
	if err != nil {
		return nodewire.EnrollResponse{}, err
	}
	return a.identity(id, cert), nil
}

func (a *App) identity(id cloud.NodeID, cert authn.NodeCertificate) nodewire.EnrollResponse {
	return nodewire.EnrollResponse{NodeID: id.String(), CloudID: a.keys.CloudID(), Certificate: cert.PEM, CA: a.keys.CAPEM(), NotAfter: cert.NotAfter}
}

// NodeRenew gives a node a fresh certificate; the old one was its proof.
func (a *App) NodeRenew(ctx context.Context, id cloud.NodeID, in nodewire.RenewRequest) (nodewire.EnrollResponse, error) {
	cert, err := a.keys.NodeSign(in.CSR, id, a.now())
	if err != nil {
		return nodewire.EnrollResponse{}, err
	}
	err = a.db.InNode(ctx, id, func(tx *postgres.Tx) error {
		return postgres.NodeCertificateAdd(ctx, tx, cert.Serial, id, cert.NotAfter)
	})
	if err != nil {
		return nodewire.EnrollResponse{}, err
	}
	return a.identity(id, cert), nil
}

// NodeCertificateValid refuses a certificate that was revoked, or that we never
// issued to the node.
func (a *App) NodeCertificateValid(ctx context.Context, id cloud.NodeID, serial string) error {
	var live bool
	err := a.db.InNode(ctx, id, func(tx *postgres.Tx) (err error) {
		live, err = postgres.NodeCertificateLive(ctx, tx, serial, id)
		return err
	})
	if err == nil && !live {
		return cloud.E(cloud.KindUnauthenticated, "certificate_revoked", "the node's certificate was revoked, or the node was removed")
	}
	return err
}

// NodeReport keeps what a node says, as tenon_node: row security lets it speak
// of itself, its cards and what is placed on it. It frees nothing: the lifecycle
// loop draws the conclusions.
func (a *App) NodeReport(ctx context.Context, id cloud.NodeID, r nodewire.Report) (nodewire.ReportAnswer, error) {
	news, seen := 0, postgres.NodeSeen{}
	row, err := nodeNews(r)
	if err != nil {
		return nodewire.ReportAnswer{}, err
	}
	held := nodewire.Version{Era: r.Era, Generation: r.Generation}
	digest, plain := reportDigest(r)
	if plain {
		if b, ok := a.noted(ctx, id, digest); ok {
			wants := nodewire.Version{Era: b.era, Generation: b.generation}.Newer(held)
			return nodewire.ReportAnswer{Sequence: r.Sequence, NextSeconds: reportSeconds, WantsAssignment: wants}, nil
		}
	}
	began := a.now()
	var cloudState postgres.CloudState
	err = a.db.InNode(ctx, id, func(tx *postgres.Tx) (err error) {
		if seen, err = postgres.NodeReported(ctx, tx, id, row); err != nil {
			return notFound(err, "node", id.String())
		}
		if cloudState, err = postgres.CloudGet(ctx, tx); err != nil {
			return err
		}
		if news, err = postgres.ObservationPut(ctx, tx, id, observations(r)); err != nil {
			return err
		}
		volumeNews, told, err := postgres.VolumesReported(ctx, tx, id, volumesSaid(r))
		if err != nil {
			return err
		}
		if told {
			seen.Generation++
			tx.Wake(postgres.TopicNode(id))
		}
		if seen.Fenced && r.Era == cloudState.Era {
			if err := postgres.LeftoversPut(ctx, tx, id, r.Era, r.Generation, leftovers(r)); err != nil {
				return err
			}
		}
		if news > 0 || volumeNews || seen.State != cloud.NodeReady {
			tx.Wake(postgres.TopicLifecycle)
		}
		return nil
	})
	if err != nil {
		return nodewire.ReportAnswer{}, err
	}
	// Cards apart: one that the database refuses must not silence the instances.
	cards, err := a.gpus(ctx, id, r)
	if err == nil {
		err = a.db.InNode(ctx, id, func(tx *postgres.Tx) error {
			if plain { // the node's row before its cards', as everywhere
				if err := postgres.NodeSaid(ctx, tx, id, digest[:]); err != nil {
					return err
				}
			}
			generation := r.Generation
			if r.Era != cloudState.Era { // of another count
				generation = 0
			}
			changed, err := postgres.GPUsReported(ctx, tx, id, generation, cards, r.ProbeOK)
			if err != nil {
				return err
			}
			if err := postgres.ExcludedReported(ctx, tx, id, excludedSaid(r)); err != nil {
				return err
			}
			parted, err := postgres.PartitionsReported(ctx, tx, id, partitionsSaid(r), r.ProbeOK)
			if err != nil {
				return err
			}
			added, err := postgres.IncidentsReported(ctx, tx, id, incidentsSaid(r))
			if changed || added || parted {
				tx.Wake(postgres.TopicSchedule)
				tx.Wake(postgres.TopicLifecycle)
			}
			return err
		})
	}
	if err == nil && plain {
		a.kept(id, digest, began)
	}
	if err != nil {
		a.log.WarnContext(ctx, "a node's cards could not be kept as reported", "node", id, "error", err)
	}
	return nodewire.ReportAnswer{
		Sequence: r.Sequence, NextSeconds: reportSeconds,
		WantsAssignment: nodewire.Version{Era: cloudState.Era, Generation: seen.Generation}.Newer(held),
	}, nil
}

func nodeNews(r nodewire.Report) (postgres.NodeNews, error) {
	drivers, err := json.Marshal(orEmptyMap(r.Drivers))
	if err != nil {
		return postgres.NodeNews{}, err
	}
	if len(r.Orphans) > orphansKept {
		r.Orphans = r.Orphans[:orphansKept]
	}
	orphans := []byte("[]")
	if len(r.Orphans) > 0 {
		if orphans, err = json.Marshal(r.Orphans); err != nil {
			return postgres.NodeNews{}, err
		}
	}
	out := postgres.NodeNews{VCPU: r.VCPU, MemoryMiB: r.MemoryMiB, AgentVersion: cut(r.Agent, 100), BootID: cut(r.BootID, 100),
		Drivers: drivers, Orphans: orphans, AckGeneration: r.Generation}
	out.Labels, out.Kinds, out.Watchdog = labels(r.Labels), kinds(r.Kinds), r.Watchdog
	if era, err := uuid.Parse(r.Era); err == nil {
		out.AckEra = &era
	}
	if r.VCPU < 0 || r.MemoryMiB < 0 || r.Generation < 0 {
		return out, cloud.Invalid(cloud.Field{Location: "body", Message: "an amount is negative"})
	}
	return out, nil
}

// labels bounds what a node calls itself.
func labels(in map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range in {
		if len(out) < labelsKept {
			out[cut(k, 63)] = cut(v, 200)
		}
	}
	return out
}

// kinds keeps what are kinds of instances.
func kinds(in []string) []string {
	out := []string{}
	for _, k := range []cloud.InstanceKind{cloud.KindContainer, cloud.KindNotebook, cloud.KindVM} {
		if slices.Contains(in, string(k)) {
			out = append(out, string(k))
		}
	}
	return out
}

// volumesSaid is what a report tells of volumes, as far as it makes sense.
func volumesSaid(r nodewire.Report) []postgres.VolumeSaid {
	out := make([]postgres.VolumeSaid, 0, len(r.Volumes))
	for _, v := range r.Volumes {
		s := postgres.VolumeSaid{State: v.State, UsedMiB: max(0, v.UsedMiB), Message: cut(v.Message, messageBytes)}
		switch v.State {
		case nodewire.VolumePresent, nodewire.VolumeGone, nodewire.VolumeFailed:
		default:
			continue
		}
		if s.ID.UnmarshalText([]byte(v.ID)) == nil {
			out = append(out, s)
		}
	}
	return out
}

func orEmptyMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// cut bounds a text that a node wrote.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[len(s)-n:]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "�")
}

func observations(r nodewire.Report) []postgres.Observation {
	out := make([]postgres.Observation, 0, len(r.Instances))
	for _, i := range r.Instances {
		o := postgres.Observation{Epoch: i.Epoch, Generation: i.Generation, State: i.State, Reason: cut(i.Reason, 100), Message: cut(i.Message, messageBytes),
			ExitCode: i.ExitCode, LastLines: cut(i.LastLines, lastLinesBytes), Address: cut(i.Address, 100),
			StateFor: seconds(i.StateForSeconds), RanFor: seconds(i.RanForSeconds)}
		if i.Activity != nil {
			o.Activity, _ = json.Marshal(i.Activity) // numbers and truths alone
		}
		if i.Progress != nil {
			p := min(max(*i.Progress, 0), 100)
			o.Progress = &p
		}
		if !guestState(i.State) || o.InstanceID.UnmarshalText([]byte(i.ID)) != nil {
			continue // not a word or an id of ours: there is nothing to conclude
		}
		out = append(out, o)
	}
	return out
}

func guestState(s string) bool {
	switch s {
	case nodewire.GuestPending, nodewire.GuestPulling, nodewire.GuestStarting, nodewire.GuestRunning, nodewire.GuestStopping,
		nodewire.GuestStopped, nodewire.GuestFailed, nodewire.GuestGone:
		return true
	}
	return false
}

// seconds bounds a duration that a node measured.
func seconds(s float64) time.Duration {
	const year = 366 * 24 * 3600
	if !(s > 0) { // also not a number
		return 0
	}
	return time.Duration(min(s, 10*year) * float64(time.Second))
}

// gpus are the cards of a report, at addresses that compare. One whose address
// is none, or another's in other spelling, costs only itself.
func (a *App) gpus(ctx context.Context, node cloud.NodeID, r nodewire.Report) ([]cloud.GPU, error) {
	out := make([]cloud.GPU, 0, len(r.GPUs))
	seen := map[cloud.PCIAddress]bool{}
	for _, g := range r.GPUs {
		switch cloud.GPUState(g.State) {
		case cloud.GPUReady, cloud.GPUCleaning, cloud.GPUNeedsReset, cloud.GPUQuarantined, cloud.GPUUnhealthy, cloud.GPUMissing, cloud.GPUUnknown:
		default:
			return nil, cloud.Invalid(cloud.Field{Location: "body.gpus", Message: "not a state of a card", Value: g.State})
		}
		at, err := cloud.ParsePCIAddress(g.PCIAddress)
		if err != nil || seen[at] {
			a.log.WarnContext(ctx, "a card of a node's report is left out", "node", node, "uuid", cut(g.UUID, 100), "address", cut(g.PCIAddress, 100), "error", err, "twice", seen[at])
			continue
		}
		seen[at] = true
		out = append(out, cardOf(at, g))
	}
	return out, nil
}

// pciAddresses spells addresses as they are compared; what is none is left out.
func pciAddresses(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		if a, err := cloud.ParsePCIAddress(s); err == nil {
			out = append(out, a.String())
		}
	}
	return out
}

// NodeAck notes which assignment a node answered that it holds.
func (a *App) NodeAck(ctx context.Context, id cloud.NodeID, held nodewire.Version) error {
	era, err := uuid.Parse(held.Era)
	if err != nil {
		return cloud.Invalid(cloud.Field{Location: "body.era", Message: "not an era", Value: held.Era})
	}
	return a.db.InNode(ctx, id, func(tx *postgres.Tx) error { return postgres.NodeAck(ctx, tx, id, era, held.Generation) })
}

// NodeMayPull lets a node at the images of its own assignment.
func (a *App) NodeMayPull(ctx context.Context, id cloud.NodeID, repository string) error {
	var has bool
	err := a.db.InNode(ctx, id, func(tx *postgres.Tx) (err error) {
		has, err = postgres.NodeHasImage(ctx, tx, id, repository)
		return err
	})
	if err == nil && !has {
		return cloud.NotFound("repository", repository)
	}
	return err
}
