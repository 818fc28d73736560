package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// reservation keeps a VM's address its own while it is off: the system on its disk
// was set up with it. It lasts as long as the folder of that disk.
type reservation struct {
	Address string `json:"address"`
	While   string `json:"while"`
}

func (n *Network) reserveDir() string           { return filepath.Join(n.cfg.StateDir, "reserved") }
func (n *Network) reserveFile(id string) string { return filepath.Join(n.reserveDir(), id+".json") }

func (n *Network) reserve(id string, r reservation) error {
	if err := os.MkdirAll(n.reserveDir(), 0o700); err != nil {
		return fmt.Errorf("make reservations folder: %w", err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode reservation: %w", err)
	}
	return durable.WriteFile(n.reserveFile(id), raw, 0o600)
}

// reserved is a VM's reservation, if its disk is still there.
func (n *Network) reserved(id string) (reservation, bool) {
	var r reservation
	raw, err := os.ReadFile(n.reserveFile(id))
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return r, false
	}
	_, err = os.Stat(r.While)
	return r, !errors.Is(err, fs.ErrNotExist)
}

// holdReservations takes again the addresses whose lease is missing: the network
// was taken down meanwhile. It asks for no disk: after a reboot none may be there
// yet.
func (n *Network) holdReservations() {
	entries, _ := os.ReadDir(n.reserveDir())
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			r, _ := n.reserved(id)
			_ = n.holdLease(id, r.Address) // of another subnet: the next guest that comes settles it
		}
	}
}

// settleReservations gives back the addresses of disks that are gone. It is for
// when a guest is made: the disks are there then.
func (n *Network) settleReservations() error {
	entries, _ := os.ReadDir(n.reserveDir())
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		r, holds := n.reserved(id)
		if holds {
			holds = n.holdLease(id, r.Address)
		} else if _, err := os.Stat(n.attachFile(id)); errors.Is(err, fs.ErrNotExist) {
			n.forgetLease(id)
		}
		if !holds {
			if err := os.RemoveAll(n.reserveFile(id)); err != nil {
				return fmt.Errorf("forget reservation: %w", err)
			}
		}
	}
	return nil
}

// holdLease has an address be leased to a guest, as host-local writes it down. It
// fails if it is another's, or of another subnet.
func (n *Network) holdLease(id, address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil || !n.plan.Subnet.Contains(ip) {
		return false
	}
	dir := filepath.Join(n.leaseDir(), n.cniNetwork())
	path := filepath.Join(dir, ip.String())
	if raw, err := os.ReadFile(path); err == nil {
		return strings.HasPrefix(string(raw), id+"\r\n")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_, err = f.WriteString(id + "\r\n" + guestInterface)
	return errors.Join(err, f.Close()) == nil
}

// dropLease gives back an address unless it is reserved.
func (n *Network) dropLease(id string) {
	if _, ok := n.reserved(id); !ok {
		n.forgetLease(id)
	}
}
