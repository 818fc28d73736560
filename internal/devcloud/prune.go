package devcloud

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prune takes away clouds whose state folder is gone or has become another cloud
// (`rm -rf`, `git clean -xfd`): their processes, mounts and far folders. A
// cloud whose folder still names it is never touched, running or not.
func prune(roots Roots, agent string, note func(format string, args ...any)) {
	seen := map[string]Layout{}
	for _, pattern := range []string{filepath.Join(roots.Run, "tenon-*"), filepath.Join(roots.Lib, "*")} {
		folders, _ := filepath.Glob(pattern)
		for _, folder := range folders {
			id, err := readIdentity(folder)
			if err != nil || !abandoned(id) {
				continue
			}
			seen[id.ID] = Layout{Identity: id, Run: filepath.Join(roots.Run, "tenon-"+id.ID), Far: filepath.Join(roots.Lib, id.ID)}
		}
	}
	for _, l := range seen {
		note("Cleaning up after cloud %s, whose folder %s is gone.", l.ID, l.State)
		if err := l.remove(agent); err != nil {
			note("That is not complete: %v", err)
		}
	}
}

// abandoned reports whether the folder no longer holds this cloud.
func abandoned(id Identity) bool {
	now, err := readIdentity(id.State)
	if err == nil {
		return now.ID != id.ID
	}
	return os.IsNotExist(err)
}

// remove stops what is left of a cloud and deletes what it keeps outside its
// state folder.
func (l Layout) remove(agent string) error {
	stopByPidFiles(l.Run)
	if err := takeAway(l, agent); err != nil {
		return err
	}
	for _, folder := range []string{l.Run, l.Far} {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

// stopOrder is that of a whole cloud, those who need others first.
var stopOrder = []string{"supervisor", "fleet", "agent", "libvirtd", "virtlogd", "containerd", "serve", "postgres"}

func stopByPidFiles(run string) {
	for _, name := range stopOrder {
		if p, ok := readPid(run, name); ok && p.alive() && p.PID != os.Getpid() {
			sig := syscall.SIGTERM
			if name == "postgres" {
				sig = syscall.SIGINT
			}
			p.stop(sig, 30*time.Second, nil)
		}
	}
}

// Clean stops a folder's cloud, whoever runs it, and deletes all of it.
func Clean(state string, roots Roots, agent string, note func(format string, args ...any)) error {
	id, err := readIdentity(state)
	if err != nil {
		if os.IsNotExist(err) {
			prune(roots, agent, note)
			return os.RemoveAll(state)
		}
		// A damaged identity can't be stopped by name; what it left is pruned
		// once its folder is gone.
		id = Identity{}
	}
	if id.ID != "" {
		id.State = state
		if err := stopSupervisor(state); err != nil {
			return err
		}
		l := Layout{Identity: id, Run: filepath.Join(roots.Run, "tenon-"+id.ID), Far: filepath.Join(roots.Lib, id.ID)}
		if err := l.remove(agent); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(state); err != nil {
		return err
	}
	prune(roots, agent, note)
	return nil
}

// stopSupervisor asks the running `tenond dev` to end, and waits for its lock.
func stopSupervisor(state string) error {
	file, err := os.OpenFile(filepath.Join(state, "lock"), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		return nil
	}
	if pid := lockHolder(file); pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	return unix.Flock(int(file.Fd()), unix.LOCK_EX)
}
