package imagebuild

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var debianArchitecture = runtime.GOARCH // amd64 and arm64 are named alike

// phases are the steps that debootstrap prints a line a package for.
var phases = map[string]string{
	"Retrieving":  "fetch Debian packages",
	"Extracting":  "unpack the base system",
	"Unpacking":   "install packages",
	"Configuring": "install packages",
	"Setting":     "install packages", // apt's: Setting up
}

// bootstrap makes the tree. Each program runs in a mount namespace of its own, so
// that whatever it mounts is gone with it, even when it is killed.
func bootstrap(ctx context.Context, o Options, tree string) error {
	o.Progress("fetch Debian packages", 0, 0)
	err := run(ctx, o, "debootstrap", "--variant=minbase", "--arch="+debianArchitecture,
		"--include="+strings.Join(o.Image.Packages, ","), o.Suite, tree, o.Mirror)
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("debootstrap is not installed: deploy/setup.sh installs it")
	}
	if err != nil {
		return err
	}
	if len(o.Image.Installed) > 0 {
		if err := run(ctx, o, "sh", append([]string{"-c", installScript, "install.sh", tree}, o.Image.Installed...)...); err != nil {
			return err
		}
	}
	return configure(ctx, o, tree)
}

// run gives what a program prints as progress, and its last lines if it fails.
func run(ctx context.Context, o Options, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open output of %s: %w", program, err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	last := follow(pipe, o.Progress)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("install Debian %s from %s: %s: %w; its last lines:\n%s", o.Suite, o.Mirror, program, err, strings.Join(last, "\n"))
	}
	return nil
}

// configure runs the image's own commands in its tree.
func configure(ctx context.Context, o Options, tree string) error {
	for _, c := range o.Image.Commands {
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Chroot: tree}
		cmd.Path = filepath.Join("/usr/sbin", c[0])
		cmd.Err = nil // it was looked for on the host
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("run %s in the image: %w: %s", c[0], err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// follow turns debootstrap's lines into progress and keeps the last few.
func follow(r io.Reader, progress Progress) []string {
	var last []string
	counts := map[string]int64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if last = append(last, line); len(last) > 8 {
			last = last[1:]
		}
		word, _, _ := strings.Cut(strings.TrimPrefix(line, "I: "), " ")
		counts[word]++
		if step, ok := phases[word]; ok {
			done, total := counts[word], counts["Retrieving"]
			if step == "install packages" { // each is unpacked and configured
				done, total = counts["Unpacking"]+counts["Configuring"]+counts["Setting"], 2*(total+counts["Selecting"])
			}
			progress(step, done, total)
		}
	}
	_, _ = io.Copy(io.Discard, r) // an overlong line must not block the child
	return last
}
