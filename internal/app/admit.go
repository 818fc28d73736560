package app

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	poolDefault    = "default"
	commandWords   = 64
	commandBytes   = 8 << 10
	envVariables   = 128
	envBytes       = 32 << 10
	labelsMaximum  = 32
	labelBytes     = 63
	reservedPrefix = "TENON_"
)

var (
	envForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
)

// wish is an InstanceInput with everything that it names looked up.
type wish struct {
	in      InstanceInput
	project cloud.Project
	image   postgres.Image
	flavor  cloud.Flavor
	pool    cloud.Pool
	found   *postgres.Idempotency // the request was answered before
	at      time.Time
}

// InstanceCreate admits an instance: checked, counted against the project's
// limits, written and queued in one transaction, which is one round trip.
func (a *App) InstanceCreate(ctx context.Context, c Call, project string, in InstanceInput) (cloud.Instance, error) {
	w, ans, err := a.wish(ctx, c, project, in)
	if err != nil {
		return cloud.Instance{}, err
	}
	if w.found != nil {
		var out cloud.Instance
		return out, ans.replay(*w.found, &out)
	}
	if in.NoWait {
		if err := a.mustFit(ctx, c, w); err != nil {
			return cloud.Instance{}, err
		}
	}
	admission, err := w.admission(c)
	if err != nil {
		return cloud.Instance{}, err
	}
	if in.UserData != "" {
		id := admission.Instance.ID.String()
		if admission.UserData, err = a.keys.Seal(authn.SealUserData, id, []byte(in.UserData)); err != nil {
			return cloud.Instance{}, err
		}
	}
	if admission.Idempotency, err = ans.with(admission.Instance); err != nil {
		return cloud.Instance{}, err
	}
	err = a.admit(ctx, admission)
	if err == nil {
		return admission.Instance, nil
	}
	if ans != nil {
		// The same request may have been first by a moment.
		if out, found, again := replayed[cloud.Instance](ctx, a, c, ans); found {
			return out, again
		}
	}
	if excess, ok := postgres.QuotaExceeded(err); ok {
		return cloud.Instance{}, quotaError(w.project, excess)
	}
	return cloud.Instance{}, taken(err, "instance_name", "instance", in.Name)
}

// wish checks a request and looks up what it names, in one round trip. All that
// is wrong is told at once.
func (a *App) wish(ctx context.Context, c Call, project string, in InstanceInput) (w wish, ans *answer, err error) {
	if in.Pool == "" {
		in.Pool = poolDefault
	}
	w.in = in
	if ans, err = answerOf(c, "instance.create", struct {
		Project string
		InstanceInput
	}{project, in}); err != nil {
		return w, nil, err
	}
	var key string
	if ans != nil {
		key = ans.row.Key
	}
	look, err := postgres.AdmissionLookup(ctx, a.db, postgres.ScopeOf(c.Actor), postgres.AdmissionRefs{
		Org: c.Actor.OrgID, Actor: c.Actor.UserID.UUID(), Key: key,
		Project: postgres.RefOf(cloud.ProjectID{}, project), Image: postgres.RefOf(cloud.ImageID{}, in.Image),
		Flavor: postgres.RefOf(cloud.FlavorID{}, in.Flavor), Pool: postgres.RefOf(cloud.PoolID{}, in.Pool),
	})
	if err != nil {
		return w, nil, err
	}
	if look.Project == nil {
		return w, nil, cloud.NotFound("project", project)
	}
	w.project, w.at, w.found = *look.Project, look.Now, look.Answered
	if err := may(c, authz.InstanceCreate, w.project.OrgID); err != nil {
		return w, nil, err
	}
	if w.found != nil {
		return w, ans, nil
	}
	fields := inputFields(in)
	missing := func(at, what, value string) {
		fields = append(fields, cloud.Field{Location: "body." + at, Message: fmt.Sprintf("there is no such %s here", what), Value: value})
	}
	switch {
	case look.Image == nil:
		missing("image", "image", in.Image)
	case in.Kind != "" && in.Kind != look.Image.Kind:
		fields = append(fields, cloud.Field{Location: "body.kind", Message: fmt.Sprintf("the image is for a %s", look.Image.Kind), Value: in.Kind})
	default:
		w.image = *look.Image
	}
	if wrong := asksForOne(in); len(wrong) > 0 {
		fields = append(fields, wrong...)
	} else if in.Need != nil {
		if look.Image != nil && look.Pool != nil {
			flavor, wrong, err := a.met(ctx, c, *in.Need, look.Image.Kind, *look.Pool)
			if err != nil {
				return w, nil, err
			}
			fields = append(fields, wrong...)
			look.Flavor, w.flavor, w.in.Flavor = &flavor, flavor, flavor.Name
		}
	} else if look.Flavor == nil {
		missing("flavor", "flavor", in.Flavor)
	} else {
		w.flavor = *look.Flavor
	}
	if look.Image != nil {
		fields = append(fields, kindFields(look.Image.Kind, in)...)
		if look.Flavor != nil && in.Need == nil {
			fields = append(fields, flavorFields(look.Image.Kind, w.flavor, in.Flavor)...)
		}
	}
	if look.Pool == nil {
		missing("pool", "pool", in.Pool)
	} else {
		w.pool = *look.Pool
	}
	if len(fields) > 0 {
		return w, nil, cloud.Invalid(fields...)
	}
	return w, ans, nil
}

// inputFields checks what needs no look-up. Values of variables are never told
// back: they may be secret.
func inputFields(in InstanceInput) (fields []cloud.Field) {
	bad := func(at, message string, value any) {
		fields = append(fields, cloud.Field{Location: "body." + at, Message: message, Value: value})
	}
	if !cloud.ValidName(in.Name) {
		bad("name", cloud.NameRule, in.Name)
	}
	switch in.Kind {
	case "", cloud.KindContainer, cloud.KindVM, cloud.KindNotebook:
	default:
		bad("kind", "one of container, notebook, vm", in.Kind)
	}
	switch in.OnStop {
	case "", cloud.StopReleases, cloud.StopHolds:
	default:
		bad("on_stop", "release or hold", in.OnStop)
	}
	switch in.OnNodeLoss {
	case "", cloud.LossWaits, cloud.LossRestarts:
	default:
		bad("on_node_loss", "wait or restart", in.OnNodeLoss)
	}
	switch in.OnReboot {
	case "", cloud.RebootRestarts, cloud.RebootFails:
	default:
		bad("on_node_reboot", "restart or fail", in.OnReboot)
	}
	total := 0
	for _, word := range in.Command {
		total += len(word)
		if !utf8.ValidString(word) || strings.ContainsRune(word, 0) {
			bad("command", "words are UTF-8 without zero bytes", nil)
			break
		}
	}
	if len(in.Command) > commandWords || total > commandBytes {
		bad("command", fmt.Sprintf("at most %d words and %d bytes", commandWords, commandBytes), nil)
	}
	if in.Command != nil && (len(in.Command) == 0 || in.Command[0] == "") {
		bad("command", "leave it out for the image's own; its first word names a program", nil)
	}
	total = 0
	for _, k := range keys(in.Env) {
		v := in.Env[k]
		total += len(k) + len(v)
		switch {
		case !envForm.MatchString(k):
			bad("env", "names are letters, digits and underscores, and don't begin with a digit", k)
		case strings.HasPrefix(k, reservedPrefix):
			bad("env", "names that begin with "+reservedPrefix+" are the platform's", k)
		case !utf8.ValidString(v) || strings.ContainsRune(v, 0):
			bad("env", "values are UTF-8 without zero bytes", k)
		}
	}
	if len(in.Env) > envVariables || total > envBytes {
		bad("env", fmt.Sprintf("at most %d variables and %d bytes", envVariables, envBytes), nil)
	}
	if len(in.Labels) > labelsMaximum {
		bad("labels", fmt.Sprintf("at most %d", labelsMaximum), len(in.Labels))
	}
	for _, k := range keys(in.Labels) {
		if v := in.Labels[k]; !labelForm.MatchString(k) || len(v) > labelBytes || v != "" && !labelForm.MatchString(v) {
			bad("labels", "keys and values are at most 63 letters, digits, dots, slashes, underscores and hyphens", k)
		}
	}
	return fields
}

func keys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// admission is everything that is written for a new instance.
func (w wish) admission(c Call) (postgres.Admission, error) {
	amounts, err := takes(w.flavor.Shape)
	if err != nil {
		return postgres.Admission{}, cloud.Invalid(cloud.Field{Location: "body.flavor", Message: err.Error(), Value: w.in.Flavor})
	}
	amounts[cloud.QuotaInstances] = 1
	i := cloud.Instance{
		ID: cloud.InstanceID{}.New(), OrgID: w.project.OrgID, ProjectID: w.project.ID, ProjectName: w.project.Name,
		Name: w.in.Name, Kind: w.image.Kind, ImageID: w.image.ID, ImageName: w.image.Name, ImageDigest: w.image.Digest,
		FlavorID: w.flavor.ID, FlavorName: w.flavor.Name, Shape: w.flavor.Shape, PoolName: w.pool.Name, Simulated: w.pool.Simulated,
		Command: w.in.Command, Env: w.in.Env, Labels: w.in.Labels,
		Desired: cloud.DesiredRunning, Generation: 1, State: cloud.StateQueued,
		CreatedBy: c.Actor.UserID, CreatedAt: w.at, StateAt: w.at,
		OnStop: cmp.Or(w.in.OnStop, cloud.StopReleases), OnNodeLoss: cmp.Or(w.in.OnNodeLoss, cloud.LossWaits),
		OnReboot: cmp.Or(w.in.OnReboot, cloud.RebootPolicyOf(w.image.Kind)), SSHKeys: keyLines(w.in.SSHKeys),
	}
	if v, keeps := volumeOf(i); keeps {
		v.CreatedAt = w.at
		i.Volumes = []cloud.Volume{v}
	}
	s := postgres.Standing{ID: i.ID, OrgID: i.OrgID, ProjectID: i.ProjectID, Name: i.Name, Kind: i.Kind, Shape: i.Shape, State: i.State}
	event := postgres.InstanceEvent(&s, "created", "asked for by "+c.Actor.Email, w.at, map[string]any{"flavor": w.flavor.Name, "image": w.image.Name, "pool": w.pool.Name})
	i.EventSeq = s.EventSeq
	return postgres.Admission{
		Instance: i, PoolID: w.pool.ID, ImageOrg: w.image.OrgID, Takes: amounts, Event: event,
		Audit: auditRow(c, i.OrgID, authz.InstanceCreate, i.ID.String(), map[string]any{"name": i.Name, "flavor": w.flavor.Name, "image": w.image.Name}),
	}, nil
}

// quotaError is the one answer wherever a limit is hit.
func quotaError(p cloud.Project, x postgres.QuotaExcess) error {
	unit := map[cloud.QuotaResource]string{
		cloud.QuotaGPUMilli: "thousandths of a GPU", cloud.QuotaInstances: "instances", cloud.QuotaMemoryMiB: "MiB of memory", cloud.QuotaVCPU: "vCPU",
	}[x.Resource]
	return cloud.E(cloud.KindQuota, "quota_exceeded", "project %q may use %d %s: %d are in use and %d more were asked for", p.Name, x.Limit, unit, x.Used, x.Asked).
		WithHint("stop or delete something in the project, or ask a platform operator to raise its %s limit", x.Resource).
		With("resource", string(x.Resource)).With("limit", x.Limit).With("used", x.Used).With("asked", x.Asked)
}

// mustFit refuses what would have to wait.
func (a *App) mustFit(ctx context.Context, c Call, w wish) error {
	d, err := a.dryRun(ctx, c, w)
	if err != nil || d.StartsNow {
		return err
	}
	return cloud.E(cloud.KindNoCapacity, "no_capacity", "nothing in pool %q takes a %s now", w.pool.Name, w.flavor.Name).
		WithHint("leave out --no-queue (`wait: false` of the API) to queue it, or take another flavor").With("reasons", d.Reasons)
}
