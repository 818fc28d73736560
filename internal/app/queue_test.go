package app_test

import (
	"fmt"
	"testing"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// TestWhoWaitsGoesFirst: what is free but wanted by the queue is not free for who
// will not wait.
func TestWhoWaitsGoesFirst(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.node(t, 1, cloud.ModeMIG)
	mine := h.tenant(t, "acme")
	last := func(name string) error {
		in := web(name)
		in.NoWait = true
		_, err := h.InstanceCreate(ctx, mine, "default", in)
		return err
	}
	for n := range 6 {
		if _, err := h.InstanceCreate(ctx, h.admin, "default", web(fmt.Sprintf("web-%d", n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := last("seventh"); err != nil {
		t.Errorf("the last slice: %v", err)
	}
	wantCode(t, "behind a queue that takes all", last("eighth"), cloud.KindNoCapacity, "no_capacity")
	d, err := h.InstanceDryRun(ctx, mine, "default", web("eighth"))
	if err != nil || d.StartsNow || d.Ahead != 7 || len(d.Reasons) == 0 {
		t.Errorf("%v %+v", err, d)
	}
}

// TestTokenIsForOneOrganisation: naming another is refused, not passed over.
func TestTokenIsForOneOrganisation(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	mine := h.tenant(t, "acme")
	made, err := h.TokenCreate(ctx, mine, app.TokenInput{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	for _, same := range []string{"", "acme", mine.Actor.OrgID.String()} {
		if who, err := h.Authenticate(ctx, made.Secret, same); err != nil || who.OrgID != mine.Actor.OrgID {
			t.Errorf("%q: %v", same, err)
		}
	}
	_, err = h.Authenticate(ctx, made.Secret, "default")
	wantCode(t, "another organisation", err, cloud.KindInvalid, "invalid")
}
