package cloudtest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
)

// The real browser keeps the pass on a plain http host below localhost, and shows
// it to no other.
func TestAppInChromium(t *testing.T) {
	t.Parallel()
	if os.Getenv("TENON_TEST_BROWSER") == "" {
		t.Skip("starts Chromium: TENON_TEST_BROWSER=1 asks for it")
	}
	s := &servers{t: t}
	c := cloudtest.StartWith(t, cloudtest.Options{Guests: fake.Options{Port: s.port}})
	acme, globex := c.Tenant("acme"), c.Tenant("globex")
	in := api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")}
	mine, other := c.Running(acme.Client, in), c.Running(globex.Client, in)
	a, err := acme.InstanceOpen(t.Context(), "default", mine.ID, 8888)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t, 25*time.Second), "node", "testdata/app.mjs")
	e2e, err := filepath.Abs("../../web/e2e")
	if err != nil {
		t.Fatal(err)
	}
	g, err := globex.InstanceOpen(t.Context(), "default", other.ID, 8888)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "TENON_E2E="+e2e, "CONSOLE="+c.URL, "MINE="+a.URL+"&path=/arrived", "OTHER="+g.URL)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var saw struct {
		Arrived, Visible, Socket, Link, CrossSocket, CrossFetch string
		Body, Other                                             said
		Posted, Stranger                                        int
		Uploaded                                                int64
	}
	if err := json.Unmarshal(text, &saw); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if saw.Arrived != "http://"+a.Host+"/arrived" || saw.Body.Instance != mine.ID || saw.Visible != "" || saw.Posted != 200 || saw.Uploaded != 200<<20 || saw.Socket != "hello" {
		t.Errorf("at its own host: %s", text)
	}
	if saw.Other.Instance != other.ID || saw.Other.Header.Get("Cookie") != "" || saw.CrossSocket != "refused" || saw.CrossFetch != "refused" {
		t.Errorf("from another's host: %s", text)
	}
	if saw.Stranger != 404 || saw.Link != c.URL+"/open/"+strings.Split(a.Host, ":")[0] {
		t.Errorf("without a pass: %s", text)
	}
	for _, forged := range s.seen("/forged") {
		t.Errorf("another instance's page got through: %s", forged)
	}
}
