package cloudtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestChangesAnswerWithThePrice as the instance's own page does.
func TestChangesAnswerWithThePrice(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	ctx := t.Context()
	acme := c.Tenant("acme")
	made, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	if err != nil || made.PricePerHourMicros == nil || *made.PricePerHourMicros <= 0 || made.Currency != "USD" {
		t.Errorf("create: %v %+v", err, made)
	}
	gone, err := acme.InstanceDelete(ctx, "default", "web-1")
	if err != nil || gone.PricePerHourMicros == nil || *gone.PricePerHourMicros != *made.PricePerHourMicros {
		t.Errorf("delete: %v %+v", err, gone)
	}
}

// TestOwnRegistryNeedsNoHost takes this cloud's own address off a reference.
func TestOwnRegistryNeedsNoHost(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	host := strings.TrimPrefix(c.URL, "http://")
	_, port, _ := strings.Cut(host, ":")
	for name, ref := range map[string]string{"one": host + "/tenon/web:1", "two": "localhost:" + port + "/tenon/web:1"} {
		i, err := c.Admin.ImageCreate(t.Context(), api.ImageCreate{Name: name, Ref: ref, Offered: true})
		if err != nil || i.Ref != "tenon/web:1" {
			t.Errorf("%s: %v %+v", ref, err, i)
		}
	}
}

// TestOddRequests are small things that were passed over in silence.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	twice := `{"items": [{"resource": "vcpu", "limit": 1}, {"resource": "vcpu", "limit": 2}]}`
	if a := request(t, c, c.Admin.Token, "PUT", "/v1/projects/"+projectID(t, acme)+"/quotas", twice); a.status != 422 || !strings.Contains(string(a.body), "given twice") {
		t.Errorf("a limit twice: %d %s", a.status, a.body)
	}
	if a := request(t, c, acme.Token, "GET", "/v1/projects", "", "Tenon-Org", "default"); a.status != 422 || !strings.Contains(string(a.body), "header.Tenon-Org") {
		t.Errorf("another organisation than the token's: %d %s", a.status, a.body)
	}
	in := api.PriceCreate{SKU: "gpu/a30/1g.6gb", MicrosPerHour: 1, StartsAt: ptr(time.Now().Add(time.Hour))}
	if p, err := c.Admin.PriceCreate(t.Context(), in); err != nil || p.SKU != "gpu/a30-24gb/1g" {
		t.Errorf("a price by the card's other names: %v %+v", err, p)
	}
}

// TestUsageOfTheFutureRunsNothing: what runs now says nothing of next year.
func TestUsageOfTheFutureRunsNothing(t *testing.T) {
	t.Parallel()
	_, acme, _ := running(t)
	ctx := within(t, 30*time.Second)
	usage := func(from time.Time) *api.Usage {
		u, err := acme.Usage(ctx, "default", api.UsageOptions{From: from, To: from.Add(48 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	eventually(t, "what runs is metered", func() bool { return usage(time.Now().Add(-time.Hour)).Running == 1 })
	if u := usage(time.Now().Add(24 * time.Hour)); u.Running != 0 || u.RatePerHourMicros != 0 {
		t.Errorf("%+v", u)
	}
}
