package cloudtest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/hypervisor/containerd"
	"github.com/tenon-cloud/tenon/internal/hypervisor/hvtest"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

// TestMain lets the test binary be its own log writer, as the agent is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == containerd.LogWriterCommand {
		if err := containerd.LogWriter(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// realContainers is a private containerd with a driver on it.
func realContainers(t *testing.T) *containerd.Driver {
	t.Helper()
	hvtest.Needs(t, "containers", "containerd", "runc", "nft", "dnsmasq", "mkfs.btrfs", "btrfs", "busybox")
	id, state, run := hvtest.Node(t, 0o700)
	cdi := filepath.Join(state, "cdi")
	config := filepath.Join(state, "containerd.toml")
	if err := os.Mkdir(cdi, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(containerd.DaemonConfig(state, run)), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("containerd", "--config", config)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	cfg := containerd.Config{CloudID: id, StateDir: state, RunDir: run, CDISpecDirs: []string{cdi}, Network: hvtest.Network(t, id, state, run), PoolMiB: 1024, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGKILL)
		_ = daemon.Wait()
		_ = os.Remove(containerd.SocketPath(run))
		if err := containerd.Purge(context.Background(), cfg); err != nil {
			t.Errorf("purge: %v", err)
			return
		}
		_ = os.RemoveAll(state)
		_ = os.RemoveAll(run)
	})
	hvtest.Eventually(t, 20*time.Second, "containerd's socket", func() error {
		_, err := os.Stat(containerd.SocketPath(run))
		return err
	})
	d, err := containerd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// busybox serves an image of it.
func busybox(t *testing.T) (ref, digest string) {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, body []byte) {
		h.Size = int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/", "root/", "proc/", "dev/", "sys/"} {
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o777}, nil)
	}
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, body)
	for _, applet := range []string{"sh", "cat", "echo", "ls", "sleep", "nc", "httpd", "mkdir", "touch", "wc", "grep", "printf", "chmod"} {
		add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	was, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: was.RootFS}); err != nil {
		t.Fatal(err)
	}
	ref = hvtest.Registry(t) + "/test/busybox"
	at, err := name.ParseReference(ref+":latest", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(at, img); err != nil {
		t.Fatal(err)
	}
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref, hash.String()
}

// meets is a program whose ranks come together at rank 0, which ends when all have
// come.
const meets = `
cd /tmp
if [ $RANK = 0 ]; then
	mkdir -p www/cgi-bin joined
	printf '#!/bin/sh\ntouch /tmp/joined/$QUERY_STRING\nprintf "Content-Type: text/plain\\r\\n\\r\\nwelcome"\n' >www/cgi-bin/join
	chmod 755 www/cgi-bin/join
	httpd -p $MASTER_PORT -h www
	until [ $(ls joined | wc -l) = $((WORLD_SIZE - 1)) ]; do sleep 0.1; done
	echo all $WORLD_SIZE met as $TENON_MEMBERS
else
	until printf 'GET /cgi-bin/join?rank%s HTTP/1.0\r\n\r\n' $RANK | nc -w 2 $MASTER_ADDR $MASTER_PORT 2>/dev/null | grep welcome; do sleep 0.1; done
	echo rank $RANK joined
fi`

// TestJobsOnRealContainers runs gangs through the API, the loops, the agent and
// containerd.
func TestJobsOnRealContainers(t *testing.T) {
	t.Parallel()
	driver := realContainers(t)
	ref, digest := busybox(t)
	c := cloudtest.StartWith(t, cloudtest.Options{Driver: driver, Resolve: func(context.Context, string, bool, *app.RegistryLogin) (app.Resolved, error) {
		return app.Resolved{Digest: digest, SizeBytes: 1}, nil
	}})
	ctx := within(t, 4*time.Minute)
	if _, err := c.Admin.ImageCreate(ctx, api.ImageCreate{Name: "busybox", Kind: "container", Ref: ref}); err != nil {
		t.Fatal(err)
	}
	small := flavor(t, c, "small")
	run := func(in api.JobCreate) *api.Job {
		t.Helper()
		in.Image, in.Flavor = "busybox", small
		j, err := c.Admin.JobCreate(ctx, "default", in)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	until := func(name, what string, ok func(*api.Job) bool) (last *api.Job) {
		t.Helper()
		hvtest.Eventually(t, time.Minute, name+" "+what, func() error {
			j, err := c.Admin.JobGet(ctx, "default", name)
			if last = j; err == nil && !ok(j) {
				err = fmt.Errorf("it is %s: %s", j.State, j.Message)
			}
			return err
		})
		return last
	}
	is := func(state string) func(*api.Job) bool {
		return func(j *api.Job) bool { return j.State == state }
	}
	logs := func(instance string) string {
		t.Helper()
		r, err := c.Admin.Logs(ctx, "default", instance, api.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		text, _ := io.ReadAll(r)
		return string(text)
	}
	four, two := 4, 2

	run(api.JobCreate{Name: "meet", Members: &four, Command: []string{"sh", "-c", meets}})
	j := until("meet", "succeeds", is(api.JobSucceeded))
	for _, m := range j.Members {
		if m.ExitCode == nil || *m.ExitCode != 0 {
			t.Errorf("%s exited with %v", m.Instance, m.ExitCode)
		}
	}
	if got := logs("meet-0"); !strings.Contains(got, "all 4 met as meet-0,meet-1,meet-2,meet-3") {
		t.Errorf("rank 0 wrote %q", got)
	}

	run(api.JobCreate{Name: "flaky", Members: &two, Retries: 1, Command: []string{"sh", "-c", `echo attempt $TENON_ATTEMPT; [ $RANK = 0 ] || [ $TENON_ATTEMPT = 2 ] || exit 7; sleep 1`}})
	j = until("flaky", "succeeds at its second attempt", is(api.JobSucceeded))
	if len(j.Attempts) != 2 || j.RetriesUsed != 1 || j.Attempts[1].Outcome != "failed" || j.Attempts[1].Members[1].ExitCode == nil || *j.Attempts[1].Members[1].ExitCode != 7 {
		t.Errorf("its history is %+v", j.Attempts)
	}
	if got := logs("flaky-1"); !strings.Contains(got, "attempt 2") {
		t.Errorf("the member wrote %q", got)
	}

	run(api.JobCreate{Name: "long", Members: &two, Command: []string{"sh", "-c", `trap 'exit 0' TERM; while :; do sleep 0.1; done`}})
	until("long", "runs", is(api.JobRunning))
	c.RestartAgent()
	before := until("long", "runs on after its agent was restarted", is(api.JobRunning))
	if before.Attempt != 1 {
		t.Errorf("it is at attempt %d", before.Attempt)
	}
	_, err := c.Admin.InstanceStop(ctx, "default", "long-1")
	if p := problemOf(t, err); p.Code != "job_member" || p.Hint == "" {
		t.Errorf("stopping a member alone: %+v", p)
	}
	if _, err := c.Admin.JobCancel(ctx, "default", "long"); err != nil {
		t.Fatal(err)
	}
	until("long", "is cancelled", is(api.JobCancelled))
	if _, err := c.Admin.JobDelete(ctx, "default", "long"); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "its members are gone", func() bool {
		list, err := c.Admin.InstanceListAll(ctx, "default", api.InstanceListOptions{})
		for _, i := range list {
			if i.Job == "long" {
				return false
			}
		}
		return err == nil
	})
}
