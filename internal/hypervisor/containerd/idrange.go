package containerd

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/network"
)

// Each organisation on a node has its own 65,536 host ids. A cloud takes them in
// blocks of 64 from the part of the id space that no distribution uses by
// default; which block a cloud has is settled among the clouds of one host.
const (
	rangeSize     = 1 << 16
	rangesInBlock = 64
	blockBase     = 0x8000_0000 // above Debian's subordinate ids and systemd's containers
	blockCount    = 448         // up to 0xf000_0000
)

// hostLedger is shared by the clouds of one host, and is all they share.
const hostLedger = "/var/lib/tenon/id-blocks.json"

// blockOwner is one cloud's hold on a block. The folder tells a living cloud
// from one that was deleted without a word.
type blockOwner struct {
	CloudID  string `json:"cloud_id"`
	StateDir string `json:"state_dir"`
}

// idRanges remembers which range each organisation has.
type idRanges struct {
	cloudID, stateDir string
	mu                sync.Mutex
}

type rangeLedger struct {
	Blocks []int          `json:"blocks"`
	Orgs   map[string]int `json:"orgs"` // organisation → place in Blocks × 64
}

func newIDRanges(cloudID, stateDir string) *idRanges {
	return &idRanges{cloudID: cloudID, stateDir: stateDir}
}

func (r *idRanges) file() string { return filepath.Join(r.stateDir, "id-ranges.json") }

// forOrg finds or allocates an organisation's range; it is on disk before it is
// returned, since files carry these ids.
func (r *idRanges) forOrg(org string) (network.IDRange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var l rangeLedger
	if err := readJSON(r.file(), &l); err != nil {
		return network.IDRange{}, err
	}
	if l.Orgs == nil {
		l.Orgs = map[string]int{}
	}
	place, ok := l.Orgs[org]
	if !ok {
		place = len(l.Orgs)
		if place/rangesInBlock >= len(l.Blocks) {
			block, err := takeBlock(blockOwner{r.cloudID, r.stateDir})
			if err != nil {
				return network.IDRange{}, err
			}
			l.Blocks = append(l.Blocks, block)
		}
		l.Orgs[org] = place
		if err := writeJSON(r.file(), l); err != nil {
			return network.IDRange{}, err
		}
	}
	block := l.Blocks[place/rangesInBlock]
	return network.IDRange{
		Base: blockBase + uint32(block*rangesInBlock+place%rangesInBlock)*rangeSize, Size: rangeSize,
	}, nil
}

// takeBlock finds a free block, beginning where the cloud's id says.
func takeBlock(owner blockOwner) (int, error) {
	taken := -1
	err := withHostLedger(func(blocks map[int]blockOwner) error {
		h := fnv.New32a()
		h.Write([]byte(owner.CloudID))
		for i := range blockCount {
			b := int((h.Sum32() + uint32(i)) % blockCount)
			if held, ok := blocks[b]; ok {
				if _, err := os.Stat(held.StateDir); !errors.Is(err, fs.ErrNotExist) {
					continue
				}
			}
			blocks[b] = owner
			taken = b
			return nil
		}
		return errors.New("take id block: all are in use on this host")
	})
	return taken, err
}

// releaseBlocks gives back what a cloud held.
func releaseBlocks(cloudID string) error {
	return withHostLedger(func(blocks map[int]blockOwner) error {
		for b, owner := range blocks {
			if owner.CloudID == cloudID {
				delete(blocks, b)
			}
		}
		return nil
	})
}

func withHostLedger(change func(map[int]blockOwner) error) error {
	if err := os.MkdirAll(filepath.Dir(hostLedger), 0o755); err != nil {
		return fmt.Errorf("make host ledger folder: %w", err)
	}
	lock, err := os.OpenFile(hostLedger+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open host ledger: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock host ledger: %w", err)
	}
	blocks := map[int]blockOwner{}
	if err := readJSON(hostLedger, &blocks); err != nil {
		return err
	}
	if err := change(blocks); err != nil {
		return err
	}
	return writeJSON(hostLedger, blocks)
}

// readJSON leaves v as it is when there is no file.
func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeJSON replaces a file in one step and only returns once it is on disk.
func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return durable.WriteFile(path, raw, 0o600)
}
