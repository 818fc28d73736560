package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ledgers tells when a node's ledger has come to say something of an instance.
type ledgers struct {
	folders map[int32]string // by watch

	mu      sync.Mutex
	waiting map[string]*asked // by instance
}

type asked struct {
	desired string // of the instance in the ledger; empty: it is there at all
	at      chan time.Time
}

// watchLedgers has the kernel tell of each ledger that is replaced.
func watchLedgers(ctx context.Context, root string) (*ledgers, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("find the simulated nodes (was the cloud started with --simulate-nodes?): %w", err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch ledgers: %w", err)
	}
	l := &ledgers{folders: map[int32]string{}, waiting: map[string]*asked{}}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		folder := filepath.Join(root, e.Name())
		wd, err := unix.InotifyAddWatch(fd, folder, unix.IN_MOVED_TO)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", folder, err)
		}
		l.folders[int32(wd)] = folder
	}
	go l.read(ctx, fd)
	return l, nil
}

func (l *ledgers) read(ctx context.Context, fd int) {
	buf := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		now := time.Now()
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			name := string(buf[at+unix.SizeofInotifyEvent : at+unix.SizeofInotifyEvent+int(e.Len)])
			at += unix.SizeofInotifyEvent + int(e.Len)
			if strings.TrimRight(name, "\x00") == "ledger.json" {
				l.changed(filepath.Join(l.folders[e.Wd], "ledger.json"), now)
			}
		}
	}
}

// changed reads one ledger and answers those who wait for what it says.
func (l *ledgers) changed(path string, now time.Time) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var doc struct {
		State struct {
			Assignment struct {
				Instances []struct {
					ID      string `json:"id"`
					Desired string `json:"desired"`
				} `json:"instances"`
			} `json:"assignment"`
		} `json:"state"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range doc.State.Assignment.Instances {
		if a := l.waiting[i.ID]; a != nil && (a.desired == "" || a.desired == i.Desired) {
			a.at <- now
			delete(l.waiting, i.ID)
		}
	}
}

// expect begins to wait; it must come before the change.
func (l *ledgers) expect(id, desired string) <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &asked{desired: desired, at: make(chan time.Time, 1)}
	l.waiting[id] = a
	return a.at
}

// holds reports that some ledger lists the instance by now: its change came
// before anyone could wait for it.
func (l *ledgers) holds(id string) bool {
	for _, folder := range l.folders {
		raw, err := os.ReadFile(filepath.Join(folder, "ledger.json"))
		if err == nil && strings.Contains(string(raw), `"id":"`+id+`"`) {
			return true
		}
	}
	return false
}
