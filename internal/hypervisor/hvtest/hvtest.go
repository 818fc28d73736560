// Package hvtest is what the tests of the drivers have in common: a node of their
// own, on a machine that has others. Tests only; nothing in production imports it.
package hvtest

import (
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/tenon-cloud/tenon/internal/network"
)

// Needs skips a test that can't be had here.
func Needs(t testing.TB, guests string, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("not root: %s can't be made", guests)
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// Node is a cloud's id, and folders of its own: sockets need short names, so they
// are not the test's. The test removes them once nothing is mounted there.
func Node(t testing.TB, mode fs.FileMode) (id, state, run string) {
	t.Helper()
	id = fmt.Sprintf("%08x", rand.Uint32())
	state, run = "/var/tmp/tenon-test-"+id, "/run/tenon-test-"+id
	for _, dir := range []string{state, run} {
		if err := os.MkdirAll(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	return id, state, run
}

// Network opens a node's network, as a started agent does.
func Network(t testing.TB, id, state, run string, resolvers ...string) *network.Network {
	t.Helper()
	n, err := network.New(network.Config{CloudID: id, StateDir: filepath.Join(state, "network"), RunDir: filepath.Join(run, "network"), Resolvers: resolvers})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Registry serves images until the test ends, at a host and port.
func Registry(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// Eventually waits until a try succeeds, and fails with its last error.
func Eventually(t testing.TB, limit time.Duration, what string, try func() error) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waited %s in vain: %s: %v", limit, what, err)
		case <-tick.C:
		}
	}
}
